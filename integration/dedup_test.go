package integration

import (
	"encoding/json"
	"testing"
	"time"

	"dispatcher/internal/containers"
	"dispatcher/job"
)

// Nodes that are killed in the middle of their calls lose none. Without the send
// dedup store they repeat what was on the wire, and what was settled since the last
// commit. With it they repeat none of those that Redis knew to be done: with park
// none at all, and what may have been done is parked; with retry what was on the
// wire.
func TestNoRepeatsReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	dedup := []string{"dedup.enabled=true", "dedup.margin=500ms", "kafka.results=true"}
	t.Run("none", func(t *testing.T) {
		// What is settled is committed each 100 ms; the rest is the commit's own time
		// and the way to the provider.
		const within = killLatency + 100*time.Millisecond + 50*time.Millisecond
		k := w.kill(t, "none")
		k.noneLost(t, nil)
		k.noLetters(t)
		k.wasOnTheWire(t, within)
		k.tell(t, within)
	})
	// From the answer to the word of Redis, at rest 10 ms; and the way to the provider.
	const within = killLatency + 150*time.Millisecond
	t.Run("retry", func(t *testing.T) {
		k := w.kill(t, "retry", append(dedup, "sender.on_unknown=retry")...)
		k.noneLost(t, nil)
		k.noLetters(t)
		k.allAccepted(t)
		k.wasOnTheWire(t, within)
		k.doneIsDone(t)
		k.tell(t, within)
	})
	t.Run("park", func(t *testing.T) {
		k := w.kill(t, "park", append(dedup, "sender.on_unknown=park")...)
		if again := repeated(k.arrivals); len(again) != 0 {
			t.Errorf("%d jobs were called again: %v", len(again), again)
		}
		parked := k.eachEndedOnce(t)
		k.noneLost(t, parked)
		k.noLetters(t)
		k.doneIsDone(t)
		k.tell(t, within)
	})
}

// results are what the topic of results says: of how many calls of each job, and
// what became of it last.
func (k *killing) results(t *testing.T) map[string]job.Result {
	t.Helper()
	last := map[string]job.Result{}
	for _, m := range k.all(t, k.topic+".results") {
		var r job.Result
		if err := json.Unmarshal(m.Value, &r); err != nil {
			t.Fatalf("%q: %v", m.Value, err)
		}
		if was, ok := last[r.ID]; ok && was.Result != r.Result {
			t.Errorf("job %s is %s and %s", r.ID, was.Result, r.Result)
		}
		last[r.ID] = r
	}
	return last
}

// allAccepted: so say the results, and the provider has seen each of them.
func (k *killing) allAccepted(t *testing.T) {
	t.Helper()
	called, results := k.called(), k.results(t)
	for id, r := range results {
		if r.Result != job.ResultAccepted || !called[id] {
			t.Errorf("got %+v, called: %v, want it accepted", r, called[id])
		}
	}
	if len(results) != k.size.jobs {
		t.Errorf("got results of %d jobs, want %d", len(results), k.size.jobs)
	}
}

// eachEndedOnce: each job was accepted, and says so, or is parked; and none is
// both. It returns what is parked.
func (k *killing) eachEndedOnce(t *testing.T) map[string]bool {
	t.Helper()
	parked := map[string]bool{}
	for _, m := range k.all(t, k.topic+".parked") {
		var v struct{ ID string }
		if err := json.Unmarshal(m.Value, &v); err != nil || v.ID == "" || header(m, "x-error-class") != "unknown" {
			t.Errorf("got %q parked, as %q (%v)", m.Value, header(m, "x-error-class"), err)
		}
		parked[v.ID] = true
	}
	called, accepted := k.called(), 0
	for id, r := range k.results(t) {
		if r.Result == job.ResultAccepted {
			accepted++
		}
		if (r.Result == job.ResultAccepted) == parked[id] || !parked[id] && !called[id] {
			t.Errorf("job %s is %s, parked: %v, called: %v", id, r.Result, parked[id], called[id])
		}
	}
	if accepted+len(parked) != k.size.jobs || len(parked) == 0 {
		t.Errorf("got %d accepted and %d parked, want %d in all, and some parked, or the kills show nothing", accepted, len(parked), k.size.jobs)
	}
	seen := 0
	for id := range parked {
		if called[id] {
			seen++
		}
	}
	t.Logf("park: %d accepted and %d parked, of which the provider had seen %d", accepted, len(parked), seen)
	return parked
}

// noLetters: no job is dead.
func (k *killing) noLetters(t *testing.T) {
	t.Helper()
	if dead := k.all(t, k.topic+".dlq"); len(dead) != 0 {
		t.Errorf("got %d dead letters, want none: %s", len(dead), dead[0].Value)
	}
}
