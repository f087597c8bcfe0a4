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
	at    time.Time // when it was last noted whether jobs wait
	waits bool      // since then
}

// note notes whether jobs wait from now on.
func (b *binding) note(now time.Time, waits bool) {
	b.share = b.shareAt(now)
	b.at, b.waits = now, waits
}

func (b *binding) shareAt(now time.Time) float64 {
	if b.at.IsZero() {
		return 0
	}
	state := 0.0
	if b.waits {
		state = 1
	}
	return state + (b.share-state)*math.Exp(-now.Sub(b.at).Seconds()/bindSpan.Seconds())
}

// holdsUp reports whether jobs wait because of the first limit: there is no slot for them yet, or
// theirs lie further ahead than the next slot of a timeline that nobody else uses.
func (r *reserver) holdsUp(now time.Time) bool {
	if r.lastSlot().After(now.Add(nearest + spare + r.Spacing())) {
		return true
	}
	waiting := r.waiting()
	if waiting == 0 || r.pollsFirst() {
		return false
	}
	if !r.grants(now) || r.opensAt.After(now) {
		return true
	}
	for i := range r.lanes {
		if waiting.has(i) && r.lanes[i].refusedUntil.After(now) {
			return true
		}
	}
	return false
}

// sampleEvery is how often the jobs are counted that wait for gates.
const sampleEvery = time.Second

// noteBindings notes for which limits jobs wait.
func (r *reserver) noteBindings(now time.Time) {
	r.bindings[0].note(now, r.holdsUp(now))
	if len(r.gates) > 0 && r.opts.Waiting != nil && now.Sub(r.bindings[1].at) >= sampleEvery {
		waiting := r.opts.Waiting()
		for i, g := range r.gates {
			r.bindings[1+i].note(now, waiting[g.name] > 0)
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
