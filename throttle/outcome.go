package throttle

import (
	"slices"
	"time"

	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/lateness"
)

// Used reports when the call of a slot began, for the lateness histogram and for
// a guard that is auto. It is to be called when the call is over.
func (l *Limiter) Used(s Slot, at time.Time) {
	l.free()
	l.metrics.Used(at.Sub(s.NotBefore))
	l.counter.Count(s.LateBy(at))
}

// Missed reports that a slot was late when it was to be used, or was given up. A node
// that misses many asks for fewer.
func (l *Limiter) Missed(s Slot) {
	l.free()
	l.giveBack(s.Charge())
	if now := time.Now(); s.LateAt(now) {
		l.counter.Count(s.LateBy(now))
	}
	l.noteMissed(1)
}

// Unused reports that a slot was not used since its job could not be called.
func (l *Limiter) Unused(s Slot) {
	l.free()
	l.giveBack(s.Charge())
	l.metrics.Unused.Inc()
}

// free takes a slot out of those that are in flight, and wakes who waits for room.
func (l *Limiter) free() {
	l.busy.Add(-1)
	if l.bounded.Load() {
		l.wake(l.freed)
	}
}

func (l *Limiter) noteMissed(n int64) {
	l.missed.Add(n)
	l.metrics.Late.Add(float64(n))
}

// Begins counts a call that begins at its slot now, of so many units. Of these,
// [Limiter.Refused] counts those that the provider refuses.
func (l *Limiter) Begins(s Slot, units int64) {
	if charge := s.Charge(); charge != nil {
		l.answers.Made(charge.At, max(1, units), time.Now())
	}
}

// Refused reports that the provider refused a call for its rate. asked: for how long it
// wants no call; 0: it did not say. From the first such call on, the fleet watches its
// calls, and slows down to what the provider accepts: see package feedback.
func (l *Limiter) Refused(s Slot, units int64, asked time.Duration) {
	if charge := s.Charge(); charge != nil {
		l.answers.Refused(charge.At, max(1, units), asked)
		l.wake(l.corrected) // to report it
	}
}

// Reconcile reports how many units the provider counted for a call, where that may be another
// number than its job was granted. It corrects the first limit, and the gates where the job counts
// the same. Units that are missing are charged ahead of all jobs, until two windows after
// the last charge. Units that were too many are granted again where the limit counts a window;
// others have passed them on. See docs/adr/0015.
//
// It is to be called after [Limiter.Used], once a slot.
func (l *Limiter) Reconcile(s Slot, job Request, counted int64) {
	difference, charge := max(1, job.Cost)-counted, s.Charge()
	if difference == 0 || charge == nil { // slots of the lease count nowhere else
		return
	}
	kept := true
	same := slices.ContainsFunc(charge.Job.Passes, func(p Passed) bool { return p.Units == 0 })
	if difference < 0 || same || l.refunds.Load() {
		kept = l.corrections.Reconcile(charge, difference)
		l.wake(l.corrected)
	}
	l.metrics.Reconciled(difference, kept)
}

// Block reports that the provider refused a call for its rate on the value of a gate, which the call's job
// passed. No job of that value gets a slot on any node for as long as the provider asks, from a second to ten minutes; 0: it did not
// say. A cooldown forgets it: then the next call of the value is refused again. Other jobs go on, and it says nothing about the rate of the first limit. A quota has no
// blocks: there Block does what [Limiter.Refused] does.
func (l *Limiter) Block(s Slot, job Request, of Value, asked time.Duration) {
	if l.opts.Gates[of.Gate].Limit.IsQuota() {
		l.Refused(s, job.Cost, asked)
		return
	}
	if s.Charge() == nil {
		return
	}
	l.corrections.Block(s, of, asked)
	l.metrics.Blocked(l.opts.Gates[of.Gate].Name)
	l.wake(l.corrected)
}

// giveBack has others get the units of a slot that was not used, where a limit grants them again.
func (l *Limiter) giveBack(charge *slots.Charge) {
	if charge == nil || len(charge.Job.Passes) == 0 && !l.refunds.Load() {
		return
	}
	if units := max(1, charge.Job.Cost); !l.corrections.GiveBack(charge) {
		l.metrics.Reconciled(units, false)
	}
	l.wake(l.corrected)
}

// NoteRoundTrip counts the round trip of a connection to the provider that was
// just opened. With a guard of auto the fleet compares them with the spread.
func (l *Limiter) NoteRoundTrip(d time.Duration) { l.trips.Join(lateness.Trips{N: 1, Low: d, High: d}) }
