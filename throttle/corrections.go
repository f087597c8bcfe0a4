package throttle

import (
	"slices"
	"sync"
	"time"

	"dispatcher/throttle/internal/script"
)

// charge is what a slot counts: its job, on all limits.
type charge struct {
	job   Request
	at    int64 // the slot on Redis's clock, in µs
	epoch int64
}

// correction changes what a slot counts. Its job was not called, or the provider counted otherwise.
type correction struct {
	*charge

	called     bool
	difference int64 // of a job that was called: units to be given back; negative: to be charged
}

// onFirst is how many units are given back to the first limit; negative: charged.
func (c correction) onFirst() int64 {
	if c.called {
		return c.difference
	}
	return max(1, c.job.Cost)
}

// on is the same of a gate. What the provider counts is the first limit's, so a gate where the
// job has a cost of its own is left alone.
func (c correction) on(p Passed) int64 {
	switch {
	case !c.called:
		return c.job.Counts(p)
	case p.Units == 0:
		return c.difference
	}
	return 0
}

// Reconcile reports that the provider counted another number of units for a call than its job was
// granted, on the first limit and on the gates where the job counts the same. The difference
// counts with the slot, as far as that still counts: units that are missing are charged, and others wait for
// them, by a window at most. Units that were too many are granted again where the limit
// counts a window; others have passed them on.
//
// It is to be called after [Limiter.Used], once a slot.
func (l *Limiter) Reconcile(s Slot, job Request, counted int64) {
	difference := max(1, job.Cost) - counted
	if difference == 0 || s.charge == nil { // slots of the lease count nowhere else
		return
	}
	kept := l.corrections.add(correction{s.charge, true, difference})
	l.metrics.Reconciled(difference, kept)
	if kept {
		l.wake(l.corrected)
	}
}

// giveBack has others get the units of a slot that was not used, where a limit grants them again.
func (l *Limiter) giveBack(s Slot) {
	if s.charge == nil || len(s.charge.job.Passes) == 0 && !l.refunds.Load() {
		return
	}
	l.corrections.add(correction{charge: s.charge})
	l.wake(l.corrected)
}

// corrections are those that no call has passed on yet.
type corrections struct {
	mu    sync.Mutex
	all   []correction
	since time.Time // of the first one
}

// maxCorrections bounds those of one call.
const maxCorrections = 1000

// add reports whether there was room.
func (c *corrections) add(one correction) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) >= maxCorrections {
		return false
	}
	if len(c.all) == 0 {
		c.since = time.Now()
	}
	c.all = append(c.all, one)
	return true
}

// waiting reports since when there are some.
func (c *corrections) waiting() (since time.Time, some bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, len(c.all) > 0
}

// take takes those of an epoch. The others mean nothing any more.
func (c *corrections) take(epoch int64) []correction {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return slices.DeleteFunc(all, func(one correction) bool { return one.epoch != epoch })
}

// firstOf is what a call says of corrections to the first limit.
func (r *reserver) firstOf(all []correction) (corrected []script.Correction) {
	for _, c := range all {
		if units := c.onFirst(); units < 0 || r.kind.Refunds {
			corrected = append(corrected, script.Correction{Slot: c.at, Units: units})
		}
	}
	return corrected
}

// correctEvery is how long corrections wait for a reservation that passes them on. Without one
// they are worth a poll.
const correctEvery = 50 * time.Millisecond

// correctionsDue is when corrections are worth a poll. A node that waits in the queue keeps its
// place there, and passes them on with its next call.
func (r *reserver) correctionsDue() time.Time {
	since, some := r.corrections.waiting()
	if !some || r.place.Taken || r.clock.Epoch == 0 {
		return never
	}
	return later(since, r.calledAt).Add(correctEvery)
}

// heedRefunds ends a refusal: units that were not used are free, and the job that they were
// granted to asks for them again.
func (r *reserver) heedRefunds() {
	if _, some := r.corrections.waiting(); some && r.kind.Refunds {
		r.refusedUntil, r.less = time.Time{}, false
	}
}
