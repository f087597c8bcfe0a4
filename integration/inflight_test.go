package integration

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"dispatcher/internal/containers"
	"dispatcher/internal/provider"
)

const (
	mostInFlight   = 40
	inFlightAnswer = 300 * time.Millisecond // of the provider
	inFlightJobs   = 4000                   // half a minute
	inFlightCall   = time.Second            // sender.http.timeout
)

// Three nodes share 40 calls in flight, at a rate that does not bind. The provider answers
// 300 ms after a call came, so a window of 300 ms holds as many calls as are open at its end.
func TestCallsInFlightReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	t.Run("all work", func(t *testing.T) {
		s, r := w.inFlight(t, func(*scene) {})
		inFlightKept(t, r)
		once(t, r, inFlightJobs)
		figure(t, r.Utilisation >= 0.95, "got %.4f of what %d calls in flight allow, want at least 0.95", r.Utilisation, mostInFlight)
		stop(t, s.nodes...)
	})
	t.Run("one is killed", func(t *testing.T) {
		var killed time.Duration
		s, r := w.inFlight(t, func(s *scene) {
			s.judge.count(t, inFlightJobs/3, time.Minute)
			killed = s.now(t)
			s.nodes[0].signal(t, syscall.SIGKILL)
			_ = s.nodes[0].wait(t, 10*time.Second)
		})
		inFlightKept(t, r)
		if r.Accepted != inFlightJobs {
			t.Errorf("got %d jobs accepted, want %d", r.Accepted, inFlightJobs)
		}
		after := laterThan(s.judge.arrivals(t), killed+inFlightCall+2*time.Second)
		share := float64(len(after)-1) / (r.Last - after[0].At).Seconds() * inFlightAnswer.Seconds() / mostInFlight
		t.Logf("%.4f of what %d calls allow, from %v after the kill on", share, mostInFlight, inFlightCall+2*time.Second)
		figure(t, share >= 0.9, "got %.4f of what %d calls in flight allow once those of the dead node are free, want at least 0.9", share, mostInFlight)
		stop(t, s.nodes[1:]...)
	})
}

// inFlight plays three nodes over a backlog until it is settled.
func (w *servers) inFlight(t *testing.T, meanwhile func(*scene)) (*scene, provider.Report) {
	t.Helper()
	s := w.scene(t, 1000, 12, inFlightAnswer, fmt.Sprintf("limits.0.max_in_flight=%d", mostInFlight), "sender.http.timeout="+inFlightCall.String())
	s.enqueue(t, inFlightJobs)
	quiet(t)
	s.start(t, 3)
	meanwhile(s)
	s.settled(t, 3*time.Minute)
	calls := 0.0
	for _, n := range s.running() {
		calls += n.metric(t, "dispatcher_limit_script_calls_total")
	}
	r := s.judge.reportOver(t, mostInFlight, inFlightAnswer)
	t.Logf("%d calls, %d in flight at most, %.4f of what %d allow, %.2f script calls a job, %.3f unjudged",
		r.Sent, r.MaxInWindow, r.Utilisation, mostInFlight, calls/inFlightJobs, r.Unjudged)
	return s, r
}

func inFlightKept(t *testing.T, r provider.Report) {
	t.Helper()
	for _, o := range r.Over {
		t.Errorf("%d calls were in flight at %v, and %d may be", o.Count, o.At+inFlightAnswer, o.Allowed)
	}
}

// laterThan are the calls that came after at, in order.
func laterThan(all []provider.Arrival, at time.Duration) (after []provider.Arrival) {
	for _, a := range all {
		if a.At > at {
			after = append(after, a)
		}
	}
	return after
}
