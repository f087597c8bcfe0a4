package integration

import (
	"slices"
	"testing"
	"time"

	"dispatcher/internal/provider"
)

const churnEvery = 5 * time.Second

// churn: five nodes on twelve partitions, and in turn one leaves and one comes,
// as in a rolling upgrade. No job is lost or repeated, and the cap is used.
func (w *servers) churn(t *testing.T, changes int) {
	t.Helper()
	lasts := time.Duration(changes) * churnEvery
	jobs := faultCap * (int(lasts.Seconds()) + 5)
	s := w.scene(t, faultCap, 12, faultLatency)
	s.enqueue(t, jobs)
	s.start(t, 5)
	s.judge.count(t, faultCap, time.Minute)
	from := s.judge.report(t, s.cap).Last
	clock := time.NewTicker(churnEvery)
	defer clock.Stop()
	var stopped time.Duration
	for i := range changes {
		if i%2 == 0 {
			began := time.Now()
			stop(t, s.running()[0])
			stopped = max(stopped, time.Since(began))
		} else {
			s.startOne(t)
		}
		<-clock.C
	}
	r := s.finishOnce(t, jobs)
	within := slices.DeleteFunc(stamps(s.judge.arrivals(t)), func(at time.Duration) bool { return at <= from || at > from+lasts })
	gap, _ := longestGap(within, from)
	share := float64(len(within)) / (faultCap * lasts.Seconds())
	t.Logf("%d jobs, %d changes in %v: %d lost, %d repeated, %.3f of the cap used meanwhile, no call for %v at most, a node gone after %v at most",
		jobs, changes, lasts, jobs-r.Distinct, r.Repeated, share, gap.Round(time.Millisecond), stopped.Round(time.Millisecond))
	figure(t, share >= 0.9, "got %.3f of the cap used while nodes came and went, want at least 0.9", share)
}

// stamps are the times of the calls, in order.
func stamps(all []provider.Arrival) (at []time.Duration) {
	for _, a := range all {
		at = append(at, a.At)
	}
	slices.Sort(at)
	return at
}
