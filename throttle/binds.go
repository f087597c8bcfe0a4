package throttle

import (
	"math"
	"time"
)

// bindSpan is over how long the share of time is smoothed in which jobs wait for a limit: what
// was so long ago counts a third.
const bindSpan = 30 * time.Second

// binding is the share of the time, of late, in which jobs waited for a limit on this node.
type binding struct {
	share float64   // as of at
	at    time.Time // when it was last noted until when jobs wait
	until time.Time // jobs wait from at until then
}

// note notes that jobs wait from now on until a time; the zero time: none does.
func (b *binding) note(now, until time.Time) {
	b.share = b.shareAt(now)
	b.at, b.until = now, until
}

func (b *binding) shareAt(now time.Time) float64 {
	if b.at.IsZero() {
		return 0
	}
	waited := min(max(0, b.until.Sub(b.at)), now.Sub(b.at))
	return decayed(1+decayed(b.share-1, waited), now.Sub(b.at)-waited)
}

// decayed is what is left of a value after a time.
func decayed(value float64, d time.Duration) float64 {
	return value * math.Exp(-d.Seconds()/bindSpan.Seconds())
}

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
	r.bindings[0].note(now, r.holdsUp(now))
	if len(r.opts.Gates) > 0 && r.opts.Waiting != nil && now.Sub(r.bindings[1].at) >= sampleEvery {
		waiting := r.opts.Waiting()
		for i, g := range r.opts.Gates {
			until := time.Time{}
			if waiting[g.Name] > 0 {
				until = never
			}
			r.bindings[1+i].note(now, until)
		}
	}
	for i := range r.bindings {
		r.binds[i].Store(math.Float64bits(r.bindings[i].shareAt(now)))
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
