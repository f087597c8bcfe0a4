package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"dispatcher/internal/containers"
	"dispatcher/internal/why"
	limitquota "dispatcher/throttle/limit/quota"
)

const whyLimits = `
limits:
  - {name: account, cap: 300, window: 1s}
  - {name: recipient, key: job.json.to, when: 'job.json.to == "anna"', cap: 1, window: 1m}
`

// Any node holds a job, and an operator who knows its id alone learns what it waits for, and from whom.
func TestWhyReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	s := w.scene(t, 300, 6, 20*time.Millisecond)
	s.configure(t, whyLimits)
	s.start(t, 3)
	s.enqueue(t, 300)
	s.judge.count(t, 300, time.Minute) // all nodes work
	var lines bytes.Buffer
	for _, id := range []string{"first", "second"} {
		fmt.Fprintf(&lines, `{"key":"anna","id":%q,"value":{"to":"anna"}}`+"\n", id)
	}
	fmt.Fprintf(&lines, `{"key":"late","id":"late","headers":{"not-before":%q},"value":{}}`+"\n", time.Now().Add(50*time.Second).UTC().Format(time.RFC3339))
	s.enqueueLines(t, &lines)
	s.explains(t, "first", "waits for a limit: the limit recipient does not let it pass until 20")
	s.explains(t, "second", "waits for an earlier job of its key or partition: kafka.order has job first at offset ")
	s.explains(t, "late", "waits for its time: it is not due until 20")
	s.explains(t, "recipient", "limit recipient: 1 job waits for it")
	s.explains(t, s.topic+"/0/0", "is settled")

	t.Log(s.mustCommand(t, "limit", "pause", "account", "--for", "10m", "--why", "a test", "--wait"))
	lines.Reset()
	fmt.Fprintln(&lines, `{"key":"k","id":"ready","value":{}}`)
	s.enqueueLines(t, &lines)
	s.explains(t, "ready", "waits for an operator: paused until 20")
	s.explains(t, "account", "for it; on the node", "paused until 20", "; last change by ", "(a test)")
	if out, err := s.command(t, "why", "nobody"); err == nil || !strings.Contains(out, "none of 3 nodes holds the job nobody") {
		t.Errorf("got %v and %q, want that no node holds the job", err, out)
	}

	// A node that stands still is named, and costs two seconds.
	s.nodes[1].signal(t, syscall.SIGSTOP)
	defer s.nodes[1].signal(t, syscall.SIGCONT)
	began := time.Now()
	s.explains(t, "recipient", "did not answer: node-2")
	t.Logf("with a node that stands still the answer took %s", time.Since(began).Round(time.Millisecond))
}

// explains asks until the answer holds these texts.
func (s *scene) explains(t *testing.T, what string, want ...string) {
	t.Helper()
	var out string
	eventually(t, 30*time.Second, func() bool {
		var err error
		out, err = s.command(t, "why", what)
		for _, one := range want {
			if err != nil || !strings.Contains(out, one) {
				return false
			}
		}
		return true
	}, func() string { return fmt.Sprintf("why %s: got %q, want %q", what, out, want) })
	t.Logf("why %s: %s", what, strings.TrimSpace(out))
}

const reasonLimits = `
limits:
  - {name: account, cap: 20, window: 1s}
  - {name: recent, when: 'job.json.kind == "quota"', cap: 1, rolling: 24h}
`

// Each other reason for which a job waits, with its time, and what became of one that waits no more. The provider answers so that
// the reason comes about.
func TestWhyEachReasonReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	s := w.scene(t, 20, 6, 20*time.Millisecond, "kafka.workers=16", "sender.breaker.failures=5")
	s.configure(t, reasonLimits)
	s.start(t, 3)
	s.enqueueKinds(t, "first", 1, "none")
	s.judge.count(t, 1, time.Minute)

	s.judge.post(t, "/behave", `{"status":400}`)
	s.enqueueKinds(t, "dead", 1, "none")
	s.explains(t, "dead-0", "job dead-0 is the dead letter "+s.topic+".dlq/", "after 1 call, class permanent, 400")
	s.judge.post(t, "/behave", `{"fault":"hang"}`)
	s.enqueueKinds(t, "hung", 1, "none")
	s.waits(t, "hung-0", "call", whenever)
	s.judge.post(t, "/behave", `{}`)

	var lines bytes.Buffer
	for _, id := range []string{"quota-0", "later-0"} { // of one key: the first one uses the quota up
		fmt.Fprintf(&lines, `{"key":"quota","id":%q,"value":{"kind":"quota"}}`+"\n", id)
	}
	s.enqueueLines(t, &lines)
	const day = 24 * time.Hour // the unit counts until the end of its part of the window is a window and a guard ago
	s.waits(t, "later-0", "limit", within(day-2*time.Minute, day+day/limitquota.Parts+time.Second))

	s.enqueueKinds(t, "many", 300, "none")
	s.waits(t, "many-299", "lane", whenever)
	s.waits(t, "many-299", "slot", whenever)
	s.isOver(t, "many-299")
	// All others must be over too: a job that still waited would take a later one's place in the lane, and that one's reason would be the lane.
	accepted := 0
	eventually(t, time.Minute, func() bool { accepted = s.judge.report(t, 20).Accepted; return accepted >= 302 },
		func() string { return fmt.Sprintf("%d jobs are accepted, want 300 and two before them", accepted) })

	s.judge.post(t, "/behave", `{"status":503,"retry_after":"40s"}`)
	s.enqueueKinds(t, "again", 1, "none")
	s.waits(t, "again-0", "retry", within(15*time.Second, 42*time.Second))
	s.judge.post(t, "/behave", `{"status":503}`)
	s.enqueueUntil(t, "down", "provider", whenever)
	s.judge.post(t, "/behave", `{"status":429,"retry_after":"55s"}`)
	s.enqueueUntil(t, "blocked", "block", within(5*time.Second, time.Minute))
}

// enqueueKinds writes jobs of a kind, without an order between them.
func (s *scene) enqueueKinds(t *testing.T, name string, jobs int, kind string) {
	t.Helper()
	var lines bytes.Buffer
	for i := range jobs {
		fmt.Fprintf(&lines, `{"key":"%[1]s-%[2]d","id":"%[1]s-%[2]d","value":{"kind":%[3]q}}`+"\n", name, i, kind)
	}
	s.enqueueLines(t, &lines)
}

func whenever(*time.Time) bool { return true }

// within is for a time so far ahead.
func within(least, most time.Duration) func(*time.Time) bool {
	return func(until *time.Time) bool {
		return until != nil && time.Until(*until) >= least && time.Until(*until) <= most
	}
}

// reason is what a job waits for, as JSON says it; no jobs: none of the nodes holds it, or the question failed.
func (s *scene) reason(t *testing.T, id string) (shown why.Report) {
	t.Helper()
	out, err := s.command(t, "why", "--json", id) // it fails where no node holds the job
	end := strings.LastIndexByte(out, '}') + 1
	if err != nil && end == 0 {
		t.Logf("why %s: %v: %s", id, err, out)
		return shown
	}
	if err := json.Unmarshal([]byte(out[:end]), &shown); err != nil {
		t.Fatalf("why %s: %v in %s", id, err, out)
	}
	return shown
}

// isOver asks until no node holds a job, and no dead letter is of it.
func (s *scene) isOver(t *testing.T, id string) {
	t.Helper()
	var out string
	eventually(t, time.Minute, func() bool {
		var err error
		out, err = s.command(t, "why", id)
		return err != nil && strings.Contains(out, "none of 3 nodes holds the job "+id+", and no open dead letter is of it: it is settled")
	}, func() string { return fmt.Sprintf("why %s: got %q, want that it is over", id, out) })
}

// waits asks until a job waits for something, until a time.
func (s *scene) waits(t *testing.T, id, waitsFor string, until func(*time.Time) bool) {
	t.Helper()
	var shown why.Report
	eventually(t, 30*time.Second, func() bool {
		shown = s.reason(t, id)
		return len(shown.Jobs) == 1 && shown.Jobs[0].WaitsFor == waitsFor && until(shown.Jobs[0].Until)
	}, func() string {
		return fmt.Sprintf("why %s: got %+v, want that it waits for %s", id, shown.Jobs, waitsFor)
	})
	t.Logf("why %s: waits for %s: %s", id, waitsFor, shown.Jobs[0].Why)
}

// enqueueUntil writes jobs until one waits for something without a call: those before it are called, and have the provider refuse
// them. Of so many at a time, some node gets more than it calls before it stops, and less than its lane holds. Each is asked about,
// since any may be the next probe.
func (s *scene) enqueueUntil(t *testing.T, name, waitsFor string, until func(*time.Time) bool) {
	t.Helper()
	const jobs = 24 // at a time
	var seen []string
	var found why.JobOf
	n := 0
	eventually(t, time.Minute, func() bool {
		n++
		batch := fmt.Sprint(name, n)
		s.enqueueKinds(t, batch, jobs, "none")
		for i := range jobs {
			for _, one := range s.reason(t, fmt.Sprintf("%s-%d", batch, i)).Jobs {
				seen = append(seen, fmt.Sprintf("%s:%s/%d", one.ID, one.WaitsFor, one.Calls))
				if found = one; one.WaitsFor == waitsFor && one.Calls == 0 && until(one.Until) {
					return true
				}
			}
		}
		return false
	}, func() string {
		return fmt.Sprintf("got %s, want a job that waits for %s without a call", seen, waitsFor)
	})
	t.Logf("why %s: waits for %s: %s, after %s", found.ID, waitsFor, found.Why, seen)
}
