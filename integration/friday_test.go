package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"dispatcher/internal/containers"
	"dispatcher/internal/provider"
	"dispatcher/throttle/limit"
)

// A Friday evening: people change the limit of a fleet at work with the
// commands, make mistakes, forget a pause, get in one another's way and take
// back what they did. No window is over what was in force, and no job is lost.
func TestFriday(t *testing.T) {
	w := startServers(t, containers.Kafka)
	t.Run("the limit is changed by people", judged(w.friday))
}

func (w *servers) friday(t *testing.T) provider.Report {
	t.Helper()
	const jobs = 6500
	// A guard of its own: on a busy machine the fleet's changes of the lateness would come between the operators' revisions.
	s := w.scene(t, faultCap, 12, faultLatency, "limits.0.max_cap=500", "limits.0.max_step=2", "limits.0.guard="+limit.DefaultGuard.String())
	s.enqueue(t, jobs)
	s.start(t, 3)
	s.judge.count(t, 600, time.Minute)
	s.guardrailsHold(t)
	s.overridesEnd(t)
	s.operatorsMeet(t)
	s.backInTime(t)
	s.judgeByHistory(t)
	return s.finishOnce(t, jobs)
}

// guardrailsHold: a cut that is waited for, and two slips that the guardrails stop.
func (s *scene) guardrailsHold(t *testing.T) {
	t.Helper()
	s.says(t, "in force on 3/3 nodes after", "set", "provider", "--cap", "200", "--wait", "--why", "the provider asked for it")
	pass(2 * time.Second)
	s.refuses(t, "above the ceiling of 500", "set", "provider", "--cap", "2000")
	s.refuses(t, "is a step of", "set", "provider", "--cap", "90")
	s.says(t, "at most 90 in any 1s", "set", "provider", "--cap", "90", "--force", "--wait")
	pass(2 * time.Second)
	s.refuses(t, "--force passes it", "undo", "provider")
	s.says(t, "at most 200 in any 1s", "undo", "provider", "--force", "--wait")
	pass(time.Second)
}

// overridesEnd: more for a while, and a pause that nobody ends.
func (s *scene) overridesEnd(t *testing.T) {
	t.Helper()
	s.refuses(t, "(--for)", "set", "provider", "--cap", "350", "--for", "500ms")
	s.says(t, "then at most 200 in any 1s", "set", "provider", "--cap", "350", "--for", "5s", "--wait", "--why", "a backlog")
	s.returned(t, 200)
	s.says(t, "paused\n", "pause", "provider", "--for", "3s", "--why", "back in a moment", "--wait")
	s.returned(t, 200)
	pass(time.Second)
}

// returned waits until the override has ended by itself.
func (s *scene) returned(t *testing.T, to int) {
	t.Helper()
	last := func() changeShown { return s.history(t)[0] }
	eventually(t, 20*time.Second, func() bool { return last().By == "dispatcher" },
		func() string { return fmt.Sprintf("the override goes on: %+v", last()) })
	if got := last(); got.To.Cap != to || got.To.Paused {
		t.Errorf("got %+v after the override, want a cap of %d and no pause", got, to)
	}
	s.says(t, fmt.Sprintf("at most %d in any 1s, burst 1\n", to), "get", "provider")
}

// operatorsMeet: two people decide by the same revision; one of them learns it.
func (s *scene) operatorsMeet(t *testing.T) {
	t.Helper()
	seen := fmt.Sprint(s.limit(t).Revision)
	s.says(t, "at most 250 in any 1s", "set", "provider", "--cap", "250", "--if-revision", seen, "--why", "the first operator")
	s.refuses(t, "revision "+seen+" was expected", "set", "provider", "--cap", "150", "--if-revision", seen, "--why", "the second operator")
	pass(time.Second)
}

// backInTime: the last change is taken back, then all of them.
func (s *scene) backInTime(t *testing.T) {
	t.Helper()
	s.says(t, "at most 200 in any 1s", "undo", "provider", "--wait")
	pass(time.Second)
	s.says(t, "at most 300 in any 1s", "undo", "provider", "--to", "1", "--wait")
	s.says(t, "undo: back to revision 1", "history", "provider")
	s.says(t, "at most 300 in any 1s", "list")
	pass(time.Second)
}

// says runs a command of the limit and shows what it printed.
func (s *scene) says(t *testing.T, want string, args ...string) {
	t.Helper()
	out := s.mustCommand(t, append([]string{"limit"}, args...)...)
	t.Logf("$ dispatcher limit %s\n%s", strings.Join(args, " "), out)
	if !strings.Contains(out, want) {
		t.Errorf("limit %s: got\n%s\nwant %q in it", strings.Join(args, " "), out, want)
	}
}

// refuses runs a command that must fail and change nothing.
func (s *scene) refuses(t *testing.T, want string, args ...string) {
	t.Helper()
	before := s.limit(t)
	out, err := s.command(t, append([]string{"limit"}, args...)...)
	t.Logf("$ dispatcher limit %s\n%s%v", strings.Join(args, " "), out, err)
	if err == nil || !strings.Contains(out, want) || !strings.Contains(out, "nothing was changed") {
		t.Errorf("limit %s: got %v and\n%s\nwant a refusal with %q", strings.Join(args, " "), err, out, want)
	}
	if after := s.limit(t); after != before {
		t.Errorf("limit %s: got %+v after a refusal, want %+v", strings.Join(args, " "), after, before)
	}
}

type changeShown struct {
	Revision int64
	Changed  time.Time
	By, Why  string
	To       struct {
		Cap    int
		Paused bool
	}
}

func (s *scene) history(t *testing.T) (changes []changeShown) {
	t.Helper()
	out := s.mustCommand(t, "limit", "history", "provider", "--json")
	if err := json.Unmarshal([]byte(out), &changes); err != nil || len(changes) == 0 {
		t.Fatalf("limit history: %v\n%s", err, out)
	}
	return changes
}

// judgeByHistory holds the fleet to what the history says was in force, a pause
// being a cap of 0. Redis's clock is this machine's.
func (s *scene) judgeByHistory(t *testing.T) {
	t.Helper()
	changes := s.history(t)
	slices.Reverse(changes)
	for _, c := range changes {
		limit := c.To.Cap
		if c.To.Paused {
			limit = 0
		}
		s.judge.changes = append(s.judge.changes, fmt.Sprintf("%d:%d", c.Changed.UnixNano(), limit))
	}
	arrivals := s.judge.arrivals(t)
	t.Logf("%d changes in the history; the provider saw, second by second: %v", len(changes), perSecond(arrivals))
}

// perSecond counts the calls in each second from the first on.
func perSecond(all []provider.Arrival) (counts []int) {
	if len(all) == 0 {
		return nil
	}
	first := slices.MinFunc(all, func(a, b provider.Arrival) int { return int(a.At - b.At) }).At
	for _, a := range all {
		i := int((a.At - first) / time.Second)
		for len(counts) <= i {
			counts = append(counts, 0)
		}
		counts[i]++
	}
	return counts
}
