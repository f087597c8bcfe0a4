package integration

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"dispatcher/internal/containers"
)

// Three nodes send under a cap of 300 a second to a provider that accepts 200 in any second, and asks for three
// seconds of rest with each call that it refuses. Later it accepts all. Then it refuses everything, and wants no call for a year.
func TestFeedbackReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	s := w.scene(t, 300, 12, 20*time.Millisecond)
	const jobs = 30_000
	s.enqueue(t, jobs)
	s.judge.post(t, "/behave", `{"latency":"20ms","status":429,"retry_after":"3s","accepts":200}`)
	epoch := s.judge.epoch(t)
	clock := func() time.Duration { return time.Since(epoch) }
	quiet(t)
	nodes := s.start(t, 3)
	s.judge.count(t, 1, time.Minute)
	began := s.judge.arrivals(t)[0].At
	at := func(second float64) time.Duration { return began + time.Duration(second*float64(time.Second)) }
	until := func(second float64) {
		time.Sleep(at(second) - clock())
	}

	until(70)
	first, steady := s.answered(t, at(0), at(10)), s.answered(t, at(10), at(70))
	t.Logf("of 200 a second: %s in the first ten seconds, then %s", first, steady)
	figure(t, steady.perSecond >= 0.95*200, "got %.1f accepted a second, want at least 0.95 of 200", steady.perSecond)
	figure(t, steady.refused < 0.01, "got %.2f %% refused, want under 1 %%", 100*steady.refused)
	shown := s.mustCommand(t, "limit", "get", "provider")
	for _, want := range []string{"effective cap", "the provider refused"} {
		if !strings.Contains(shown, want) {
			t.Errorf("limit get has no %q:\n%s", want, shown)
		}
	}

	s.judge.post(t, "/behave", `{"latency":"20ms"}`)
	allowed := clock()
	back := time.Duration(0)
	eventually(t, 90*time.Second, func() bool {
		now := clock()
		back = now - allowed
		return s.answered(t, now-time.Second, now).perSecond >= 290
	}, func() string { return "the cap of 300 was not used again" })
	t.Logf("300 a second again %.0f s after the provider accepted them", back.Seconds())
	figure(t, back <= time.Minute, "got 300 a second again after %v, want within a minute", back)

	s.judge.post(t, "/behave", `{"latency":"20ms","status":429,"retry_after":"8760h"}`)
	refusing := clock()
	eventually(t, 10*time.Second, func() bool { return strings.Contains(s.mustCommand(t, "limit", "get", "provider"), "blocked until") },
		func() string { return "limit get shows no block:\n" + s.mustCommand(t, "limit", "get", "provider") })
	blocked := clock()
	time.Sleep(5 * time.Second)
	during := s.answered(t, blocked+time.Second, clock())
	t.Logf("blocked %.1f s after the provider refused everything; %d calls meanwhile, %d in the 4 s after that", (blocked - refusing).Seconds(), s.answered(t, refusing, blocked).calls, during.calls)
	if during.calls > 0 {
		t.Errorf("got %d calls while the provider wants none", during.calls)
	}
	for _, n := range nodes {
		if status, body := n.ready(t); status != 200 || !strings.Contains(body, "blocked") {
			t.Errorf("a node says %d, want that it is ready and blocked:\n%s", status, body)
		}
	}

	s.judge.post(t, "/behave", `{"latency":"20ms"}`)
	released := clock()
	s.mustCommand(t, "limit", "release", "provider", "--why", "the provider said that it was a mistake")
	eventually(t, 10*time.Second, func() bool {
		now := clock()
		return now > released+1500*time.Millisecond && s.answered(t, now-time.Second, now).perSecond >= 290
	}, func() string { return "the cap of 300 was not used again after the release" })
	history := s.mustCommand(t, "limit", "history", "provider")
	t.Logf("history:\n%s", history)
	for _, want := range []string{"slowed to", "blocked for 1m0s", "released by hand: the provider said"} {
		if !strings.Contains(history, want) {
			t.Errorf("the history has no %q", want)
		}
	}

	// The jobs that the provider refused when it wanted no call for a year wait for ten minutes.
	held := s.answered(t, refusing, released).calls
	var accepted map[string]int
	eventually(t, 3*time.Minute, func() bool {
		accepted = s.accepted(t)
		return len(accepted) >= jobs-held
	}, func() string {
		return fmt.Sprintf("%d jobs were accepted, want all %d but the %d that wait: no attempt of theirs is used up", len(accepted), jobs, held)
	})
	kept(t, s.judge.report(t, 300))
	stop(t, nodes...)
	for key, n := range accepted {
		if n > 1 {
			t.Errorf("job %s was accepted %d times", key, n)
		}
	}
}

// accepted is how often each job was accepted.
func (s *scene) accepted(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, a := range s.judge.arrivals(t) {
		if a.Status == http.StatusOK {
			all[a.Key]++
		}
	}
	return all
}

// epoch is when the provider's clock began.
func (j *judge) epoch(t *testing.T) time.Time {
	t.Helper()
	ns, err := strconv.ParseInt(string(j.ask(t, http.MethodGet, "/epoch", "")), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(0, ns)
}

// answers are those of the provider in a time.
type answers struct {
	calls     int
	perSecond float64 // accepted
	refused   float64 // share
}

func (a answers) String() string {
	return fmt.Sprintf("%.1f accepted a second and %.2f %% refused", a.perSecond, 100*a.refused)
}

func (s *scene) answered(t *testing.T, from, to time.Duration) (a answers) {
	t.Helper()
	accepted := 0
	for _, call := range s.judge.arrivals(t) {
		if call.At >= from && call.At < to {
			a.calls++
			if call.Status == http.StatusOK {
				accepted++
			}
		}
	}
	if a.calls > 0 {
		a.perSecond, a.refused = float64(accepted)/(to-from).Seconds(), float64(a.calls-accepted)/float64(a.calls)
	}
	return a
}
