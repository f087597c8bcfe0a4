package throttle

import (
	"math"
	"time"
)

// holdsUp is until when jobs wait because of the first limit, or [never], as far as is known now: there is no slot
// for them yet, or theirs lie further ahead than the next slot of a timeline that nobody else uses.
func (r *reserver) holdsUp(now time.Time) time.Time {
	if waiting := r.waiting(); waiting != 0 && !r.pollsFirst() {
		if !r.grants(now) || r.opensAt.After(now) {
			return never
		}
		for i := range r.lanes {
			if waiting.has(i) && r.lane(i).refusedUntil.After(now) {
				return never
			}
		}
		if r.lastSlot().After(now.Add(nearest)) { // they get the next ones
			return never
		}
	}
	if until := r.lastSlot().Add(-nearest - spare - r.Spacing()); until.After(now) {
		return until
	}
	return time.Time{}
}

// sampleEvery is how often the jobs are counted that wait for gates.
const sampleEvery = time.Second

// noteBindings notes for which limits jobs wait.
func (r *reserver) noteBindings(now time.Time) {
	r.bindings[0].Note(now, r.holdsUp(now))
	if len(r.opts.Gates) > 0 && r.opts.Waiting != nil && now.Sub(r.bindings[1].Noted()) >= sampleEvery {
		waiting := r.opts.Waiting()
		for i, g := range r.opts.Gates {
			until := time.Time{}
			if waiting[g.Name] > 0 {
				until = never
			}
			r.bindings[1+i].Note(now, until)
		}
	}
	for i := range r.bindings {
		r.binds[i].Store(math.Float64bits(r.bindings[i].At(now)))
	}
}

// Binds is the share of the time, over about the last half minute, in which jobs of this node waited
// for a limit, from 0 to 1: 0 is the first one, and behind it are the gates in their order.
func (l *Limiter) Binds(number int) float64 { return math.Float64frombits(l.binds[number].Load()) }

// bindsOf are the same for all limits, for Redis.
func (r *reserver) bindsOf() (all []float64) {
	for i := range r.binds {
		all = append(all, r.Binds(i))
	}
	return all
}
