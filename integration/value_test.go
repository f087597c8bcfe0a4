package integration

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"dispatcher/internal/containers"
)

const valueLimits = `
limits:
  - {name: account, cap: 300, window: 1s}
  - {name: recipient, key: job.json.to, cap: 2, window: 1s}
`

// Of two recipients one has a cap of its own while the fleet runs. Each is called at its cap,
// and the operator sees which one holds.
func TestOneValueReal(t *testing.T) {
	const own, others = 60, 16
	w := startServers(t, containers.Kafka)
	s := w.scene(t, 300, 6, 20*time.Millisecond)
	s.configure(t, valueLimits)
	for _, n := range s.start(t, 2) {
		eventually(t, time.Minute, func() bool { status, _ := n.ready(t); return status == http.StatusOK }, func() string { return "a node does not become ready" })
	}
	t.Log(s.mustCommand(t, "limit", "set", "recipient", "--key", "+46701234567", "--cap", "20", "--for", "1h", "--why", "support line", "--wait"))
	var lines bytes.Buffer
	for i := range own {
		fmt.Fprintf(&lines, `{"key":"a%d","id":"own-a%d-%d","value":{"to":"+46701234567"}}`+"\n", i, i, i)
	}
	for i := range others {
		fmt.Fprintf(&lines, `{"key":"b%d","id":"b%d-other-%d","value":{"to":"+46707654321"}}`+"\n", i, i, i)
	}
	s.enqueueLines(t, &lines)
	s.judge.count(t, own, time.Minute)
	t.Log(s.mustCommand(t, "limit", "get", "recipient", "--key", "+46707654321"))
	s.settled(t, time.Minute)
	shown := s.mustCommand(t, "limit", "get", "recipient") + s.mustCommand(t, "limit", "history", "recipient")
	t.Log(shown)
	if strings.Contains(shown, "+4670") {
		t.Error("got the value itself out of Redis, want a hash")
	}
	stop(t, s.running()...)
	once(t, s.judge.report(t, 300), own+others)
	took := map[string]time.Duration{}
	for _, l := range []struct {
		name      string
		cap, part int
	}{{"own", 20, 1}, {"other", 2, 2}} {
		s.keptBy(t, l.name, l.cap, l.part)
		first := time.Duration(-1)
		for _, a := range s.judge.arrivals(t) {
			if strings.Split(a.Key, "-")[l.part-1] == l.name {
				if first < 0 {
					first = a.At
				}
				took[l.name] = a.At - first
			}
		}
	}
	t.Logf("%d jobs with a cap of 20 took %s, %d with one of 2 took %s", own, took["own"], others, took["other"])
	if took["own"] > own/2*time.Second/2 {
		t.Errorf("got %s for %d jobs with a cap of 20 a second, want less than half of what 2 a second take", took["own"], own)
	}
}

// A provider counts three units for each call of jobs that said one. The fleet sends a third as
// many calls.
func TestUnitsOfAnswersReal(t *testing.T) {
	const jobs, units = 600, 3
	w := startServers(t, containers.Kafka)
	var mu sync.Mutex
	var calls []time.Time
	to := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		calls = append(calls, time.Now())
		mu.Unlock()
		answer.Header().Set("X-Units", fmt.Sprint(units))
	}))
	t.Cleanup(to.Close)
	s := w.scene(t, 300, 6, 0, "limits.0.max_cost=5", "sender.http.url="+to.URL, "sender.http.units=header:X-Units")
	s.enqueue(t, jobs)
	nodes := s.start(t, 2)
	s.settled(t, time.Minute)
	charged := 0.0
	for _, n := range nodes {
		charged += n.metric(t, "dispatcher_limit_reconciled_units_total")
	}
	stop(t, nodes...)
	mu.Lock()
	defer mu.Unlock()
	took := calls[len(calls)-1].Sub(calls[0])
	t.Logf("%d calls of %d units took %s: %.1f units a second; %.0f units were charged", len(calls), units, took, float64(len(calls)*units)/took.Seconds(), charged)
	if len(calls) != jobs || charged != jobs*(units-1) {
		t.Errorf("got %d calls and %.0f units charged, want %d and %d", len(calls), charged, jobs, jobs*(units-1))
	}
	if least := jobs * units * time.Second / 300 * 9 / 10; took < least {
		t.Errorf("got %s for the calls, want %s at least", took, least)
	}
}
