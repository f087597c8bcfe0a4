package integration

import (
	"encoding/json"
	"slices"
	"syscall"
	"testing"
	"time"

	"dispatcher/internal/containers"
	"dispatcher/job"
	"dispatcher/sender/provider"
)

const (
	repeatCap     = 300
	repeatJobs    = 3600
	repeatLatency = 200 * time.Millisecond
	repeatKills   = 3
)

// With the send ledger, nodes that are killed in the middle of their calls repeat
// none of those that Redis knew to be done: with park none at all, and what may
// have been done is parked; with retry what was on the wire.
func TestNoRepeatsReal(t *testing.T) {
	w := newWorld(t, containers.Kafka)
	t.Run("park", func(t *testing.T) {
		s, arrivals := w.killed(t, "park")
		if again := repeated(arrivals); len(again) != 0 {
			t.Errorf("%d jobs were called again: %v", len(again), again)
		}
		s.eachHasOneFate(t, arrivals)
	})
	t.Run("retry", func(t *testing.T) {
		s, arrivals := w.killed(t, "retry")
		again := repeated(arrivals)
		s.onlyFromTheWire(t, arrivals, again)
		t.Logf("%d of %d jobs were called again: what was on the wire at %d kills", len(again), repeatJobs, repeatKills)
	})
}

// killed plays three nodes, each of which is killed in turn and replaced, until
// all jobs are settled.
func (w *world) killed(t *testing.T, onUnknown string) (*scene, []provider.Arrival) {
	t.Helper()
	s := w.scene(t, repeatCap, 12, repeatLatency, "sender.on_unknown="+onUnknown, "ledger.enabled=true", "ledger.margin=500ms",
		"kafka.results=true", "sender.http.timeout=2s", "kafka.drain=3s", "kafka.session=6s")
	s.enqueue(t, repeatJobs)
	s.start(t, 3)
	for i := range repeatKills {
		s.judge.count(t, (i+1)*repeatJobs/(repeatKills+2), time.Minute)
		s.nodes[i].signal(t, syscall.SIGKILL)
		_ = s.nodes[i].wait(t, 10*time.Second)
		s.startOne(t)
	}
	s.settled(t, 2*time.Minute)
	for _, n := range s.running() {
		if lost := n.metric(t, "dispatcher_ledger_lost_total"); lost != 0 {
			t.Errorf("node %d says that Redis lost the ledger %v times", n.number, lost)
		}
	}
	stop(t, s.running()...)
	arrivals := s.judge.arrivals(t)
	kept(t, s.judge.report(t, s.cap))
	called := map[string]bool{}
	for _, a := range arrivals {
		called[a.Key] = true
	}
	t.Logf("%s: %d calls for %d of %d jobs", onUnknown, len(arrivals), len(called), repeatJobs)
	return s, arrivals
}

// eachHasOneFate: each job was accepted, and says so, or is parked; and none is
// both.
func (s *scene) eachHasOneFate(t *testing.T, arrivals []provider.Arrival) {
	t.Helper()
	parked := map[string]bool{}
	for _, m := range s.all(t, s.topic+".parked") {
		var v struct{ ID string }
		if err := json.Unmarshal(m.Value, &v); err != nil || v.ID == "" || header(m, "x-error-class") != "unknown" {
			t.Errorf("got %q parked, as %q (%v)", m.Value, header(m, "x-error-class"), err)
		}
		parked[v.ID] = true
	}
	accepted := map[string]bool{}
	for _, m := range s.all(t, s.topic+".results") {
		var r job.Result
		if err := json.Unmarshal(m.Value, &r); err != nil {
			t.Fatalf("%q: %v", m.Value, err)
		}
		if r.Result == job.ResultAccepted {
			accepted[r.ID] = true
		}
		if (r.Result == job.ResultUnknown) != parked[r.ID] {
			t.Errorf("job %s is %s, and parked: %v", r.ID, r.Result, parked[r.ID])
		}
	}
	if len(accepted)+len(parked) != repeatJobs || len(parked) == 0 {
		t.Errorf("got %d accepted and %d parked, want %d in all, and some parked, or the kills show nothing", len(accepted), len(parked), repeatJobs)
	}
	may := 0
	for _, a := range arrivals {
		if parked[a.Key] {
			may++
		}
	}
	t.Logf("%d accepted and %d parked, of which the provider had seen %d; none called twice", len(accepted), len(parked), may)
}

// onlyFromTheWire: a job that was called again was on the wire of a node when
// that was killed, and no node has said that it was done before.
func (s *scene) onlyFromTheWire(t *testing.T, arrivals []provider.Arrival, again []string) {
	t.Helper()
	// From the answer to the word of Redis, at rest 10 ms; and the way to the provider.
	const gather = 150 * time.Millisecond
	var wire []string
	for _, n := range s.nodes[:repeatKills] {
		wire = append(wire, lastOf(arrivals, n.number, repeatLatency+gather)...)
	}
	for _, key := range again {
		if !slices.Contains(wire, key) {
			t.Errorf("job %s was called again, and was not on the wire at a kill", key)
		}
	}
	told := map[string]int{}
	for _, m := range s.all(t, s.topic+".results") {
		var r job.Result
		if err := json.Unmarshal(m.Value, &r); err != nil {
			t.Fatalf("%q: %v", m.Value, err)
		}
		if r.Result != job.ResultAccepted {
			t.Errorf("got %+v, want it accepted", r)
		}
		if r.Attempts > 0 {
			told[r.ID]++
		}
	}
	for key, n := range told {
		if n > 1 {
			t.Errorf("job %s was called and told to be done %d times", key, n)
		}
	}
}
