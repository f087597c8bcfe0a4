package throttle

import (
	"slices"
	"sync"
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
)

// charge is what a slot counts: its job, on all limits.
type charge struct {
	job   Request
	at    int64 // the slot on Redis's clock, in µs
	epoch int64
}

// correction changes what a slot counts. Its job was not called, or the provider counted otherwise. Or the
// provider refused the call for the value of a gate, which is blocked.
type correction struct {
	*charge

	called     bool
	difference int64 // of a job that was called: units to be given back; negative: to be charged
	blocked    Value // until a time
	until      int64 // on Redis's clock, in µs; 0: nothing is blocked
}

// blocks reports whether it is a block.
func (c correction) blocks() bool { return c.until > 0 }

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

// Reconcile reports how many units the provider counted for a call, where that may be another
// number than its job was granted. It corrects the first limit, and the gates where the job counts
// the same. Units that are missing are charged ahead of all jobs, as far as two caps go. Units
// that were too many are granted again where the limit counts a window; others have passed them
// on. See docs/adr/0015.
//
// It is to be called after [Limiter.Used], once a slot.
func (l *Limiter) Reconcile(s Slot, job Request, counted int64) {
	difference := max(1, job.Cost) - counted
	if difference == 0 || s.charge == nil { // slots of the lease count nowhere else
		return
	}
	kept := true
	same := slices.ContainsFunc(s.charge.job.Passes, func(p Passed) bool { return p.Units == 0 })
	if difference < 0 || same || l.refunds.Load() {
		kept = l.corrections.add(correction{charge: s.charge, called: true, difference: difference})
		l.wake(l.corrected)
	}
	l.metrics.Reconciled(difference, kept)
}

// A block of a value lasts as long as the provider asks, within these bounds.
const (
	leastBlock = time.Second // also where the provider does not say how long
	mostBlock  = 10 * time.Minute
)

// Block reports that the provider refused a call for its rate on the value of a gate, which the call's job
// passed. No job of that value gets a slot on any node for as long as the provider asks; 0: it did not
// say. Other jobs go on, and it says nothing about the rate of the first limit. A quota has no
// blocks: there Block does what [Limiter.Refused] does.
func (l *Limiter) Block(s Slot, job Request, of Value, asked time.Duration) {
	if l.opts.Gates[of.Gate].Limit.IsQuota() {
		l.Refused(s, job.Cost, asked)
		return
	}
	if s.charge == nil {
		return
	}
	lasts := time.Since(s.NotBefore) + min(max(asked, leastBlock), mostBlock)
	l.corrections.add(correction{charge: s.charge, called: true, blocked: of, until: s.charge.at + lasts.Microseconds()})
	l.metrics.Blocked(l.opts.Gates[of.Gate].Name)
	l.wake(l.corrected)
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

const (
	maxCorrections = 1000 // that wait
	mostPassed     = 128  // of them that one call passes on: each names a state of each gate
)

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

// worthAsking reports whether units that are given back are worth a reservation at now: at once
// where their job asks again, else so many as have gathered.
func (c *corrections) worthAsking(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	gathered := now.Sub(c.since) >= correctEvery
	return slices.ContainsFunc(c.all, func(one correction) bool { return !one.called || gathered && one.onFirst() > 0 })
}

// chargeAgain keeps the charges and blocks of a call that failed. If the script did heed them, they are
// charged twice: that only lowers the rate.
func (c *corrections) chargeAgain(all []correction) {
	for _, one := range all {
		if one.onFirst() < 0 || one.blocks() {
			c.add(one)
		}
	}
}

// take takes the first ones. What was granted in another epoch is given back no more, and its clock may be
// another one for blocks; charges are no slot's.
func (c *corrections) take(epoch int64) []correction {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all[:min(len(c.all), mostPassed)]
	c.all = slices.Clone(c.all[len(all):])
	return slices.DeleteFunc(all, func(one correction) bool { return one.epoch != epoch && (one.onFirst() > 0 || one.blocks()) })
}

// firstOf is what a call says of corrections to the first limit.
func (r *reserver) firstOf(all []correction) (corrected []script.Correction) {
	for _, c := range all {
		if units := c.onFirst(); units < 0 || units > 0 && r.kind.Refunds {
			corrected = append(corrected, script.Correction{Slot: c.at, Units: units})
		}
	}
	return corrected
}

// correctEvery is how long corrections wait for a reservation that passes them on. Without one
// they are worth a poll.
const correctEvery = 50 * time.Millisecond

// newsDue is when a poll is worth it for what Redis does not know: corrections, and calls in flight that are
// over, whose room other nodes may want. A node that waits in the queue keeps its place there, and
// tells it with its next call.
func (r *reserver) newsDue() time.Time {
	since, some := r.corrections.waiting()
	if !r.freedAt.IsZero() && (!some || r.freedAt.Before(since)) {
		since, some = r.freedAt, true
	}
	if !some || r.lanes[r.placed()].place.Taken {
		return never
	}
	return clock.Later(since, r.calledAt).Add(correctEvery)
}

// heedRefunds has a refused node ask before its time: units are free that were not used. It keeps
// its place in the queue.
func (r *reserver) heedRefunds(now time.Time) {
	if r.kind.Refunds && r.corrections.worthAsking(now) {
		r.allLanes(func(l *lane) { l.eager, l.less = true, false })
	}
}
