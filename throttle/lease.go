package throttle

import (
	"context"
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// LeaseLength is how long a lease of the reserve lasts, and so how long a node can
// send without Redis.
//
// The reserve is units of the cap that Redis never gives out. At most MaxNodes
// nodes lease a part of it, and use that only while Redis is away. Redis gives at
// most Cap − Reserve in any Window + Guard, and each lease at most its units. So
// the sum keeps the cap whatever the timing: nobody needs to know which node is
// away, or for how long.
const LeaseLength = 10 * time.Minute

const (
	leaseRenew = LeaseLength / 10 // so often a node asks for a lease, or renews it
	// leaseSlack is for a clock that runs slower than Redis's: the node's lease ends
	// before Redis's count of it.
	leaseSlack = LeaseLength / 1000
	// awayAfter failures in a row Redis counts as away: one lost reply is none.
	awayAfter = 3
	// aheadOfCall is how far ahead slots of the lease are used: the next call may
	// hang for so long, and then be put off.
	aheadOfCall = callTimeout + retryMost
)

// leaseFunc asks Redis for a lease once, or gives it up.
type leaseFunc func(ctx context.Context, state script.LeaseState, left time.Duration) (script.LeaseReply, error)

// lease is a node's part of the reserve, on its own monotonic clock. Times are
// arguments; it belongs to the reserving goroutine.
type lease struct {
	until  time.Time     // its end; zero: no lease
	askAt  time.Time     // the next call
	next   time.Time     // no slot before
	end    time.Time     // use-by of the last slot
	period time.Duration // Window + Guard under which the last slot was given
	units  int64         // and the units in it
	cost   int64         // and those of the largest job
}

// held reports whether the lease still runs at now: by the monotonic clock, and
// by the wall clock as well, for the first stands still in a machine that sleeps.
func (l *lease) held(now time.Time) bool {
	return now.Before(l.until) && now.Round(0).Before(l.until.Round(0))
}

// state is the node's report of its lease at now.
func (l *lease) state(now time.Time) script.LeaseState {
	if l.held(now) {
		return script.LeaseHeld
	}
	return script.LeaseNone
}

// take handles a reply to a call made at asked. The lease counts from there, so that
// it ends here before Redis gives it to another node. A new lease is taken only if
// the reading that came with it can be trusted: a clock that jumped may have ended
// the leases of others.
func (l *lease) take(asked time.Time, granted, trusted bool) {
	l.askAt = asked.Add(leaseRenew)
	switch {
	case !granted:
		l.until = time.Time{}
	case trusted || l.held(asked):
		l.until = asked.Add(LeaseLength - leaseSlack)
	default:
		l.askAt = asked.Add(limit.PollMost)
	}
}

// slots gives the first jobs, of these costs, a slot each that begins before now + ahead,
// on an exact schedule: any units + 1 of them span at least Window + Guard, and gaps only
// grow. A job's units go at once, so the schedule has fewer of them, as [limit.Contract.Pace]
// says. After a change of the pace a whole period passes first, so that no span mixes the
// two.
func (l *lease) slots(set limit.Settings, now time.Time, ahead time.Duration, costs []int64) []Slot {
	units, cost, period := set.UnitsOfNode(), set.LargestCost(), set.ReservePeriod()
	if units == 0 || set.Paused || !l.held(now) {
		return nil
	}
	if l.units != 0 && (l.units != units || l.cost != cost || l.period != period) {
		l.next = later(l.next, l.end.Add(max(l.period, period)))
	}
	l.units, l.cost, l.period = units, cost, period
	paced := time.Duration(units - cost + 1)
	spacing := (period + paced - 1) / paced
	var slots []Slot
	l.next = later(l.next, now)
	for _, c := range costs {
		if !l.next.Before(now.Add(ahead)) {
			break
		}
		slot := Slot{NotBefore: l.next, NotAfter: l.next.Add(set.Lateness), lateness: set.Lateness}
		if slot.NotAfter.After(l.until) {
			break
		}
		slots, l.end = append(slots, slot), slot.NotAfter
		l.next = l.next.Add(min(spacing, period/time.Duration(c)+1) * time.Duration(c)) // a whole period is always enough
	}
	return slots
}

// onLease reports whether the node sends by its lease: Redis was known, is away, and
// has not refused the node.
func (r *reserver) onLease(now time.Time) bool {
	return r.failures >= awayAfter && r.learned && !r.refusing && !r.known.Paused &&
		r.known.UnitsOfNode() > 0 && r.lease.held(now)
}

// useLease answers requests with slots of the lease.
func (r *reserver) useLease(asked []request, now time.Time) {
	r.lease.next = later(r.lease.next, r.last) // slots rise
	slots := r.lease.slots(r.known, now, aheadOfCall, costsOf(asked))
	for i, s := range slots {
		s.valid, s.slept, s.since = r.slots, r.slots.suspended(), r.slots.generation.Load() // a cut of the limit ends it
		asked[i].answer.Slot = s
	}
	r.reservedAt = now
	r.leases.Used.Add(float64(unitsOf(asked[:len(slots)])))
}

// renewLease asks for a lease, or renews it, when that is due. Only a node that
// would see Redis's clock jump may ask.
func (r *reserver) renewLease(ctx context.Context) {
	asked := time.Now()
	if r.known.UnitsOfNode() == 0 || r.failures > 0 || r.stepped || asked.Before(r.lease.askAt) ||
		r.settledAt.IsZero() || asked.Before(r.settledAt) {
		return
	}
	cctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := r.askLease(cctx, r.lease.state(asked), 0)
	answered := time.Now()
	if err != nil {
		r.lease.askAt = answered.Add(limit.PollMost)
		r.leases.Calls.WithLabelValues("failed").Inc()
		return
	}
	trusted := reply.Epoch == r.clock.Epoch
	if trusted {
		r.observe(clock.Reading{Asked: asked, Answered: answered, Now: reply.Now, Epoch: reply.Epoch})
		trusted = !r.stepped
	}
	had := r.lease.held(answered)
	r.lease.take(asked, reply.Granted, trusted)
	r.noteLease(had, answered)
}

// noteLease logs once that a lease was got or lost.
func (r *reserver) noteLease(had bool, now time.Time) {
	has, outcome := r.lease.held(now), "refused"
	if r.leases.Held.Set(0); has {
		r.leases.Held.Set(1)
		outcome = "granted"
	}
	r.leases.Calls.WithLabelValues(outcome).Inc()
	if had != has {
		r.log.Info("lease of the reserve changed", "held", has, "units", r.known.UnitsOfNode(), "length", LeaseLength)
	}
}

// giveLeaseUp tells Redis at a graceful end that the lease is free once its last
// slot is over; at any other end the lease runs out.
func (r *reserver) giveLeaseUp(ctx context.Context) {
	now := time.Now()
	if !r.lease.held(now) || r.failures > 0 {
		return
	}
	left := -2 * limit.MaxWindow // never used
	if !r.lease.end.IsZero() {
		left = r.lease.end.Sub(now)
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if _, err := r.askLease(cctx, script.LeaseLeft, left); err != nil {
		r.log.Info("lease of the reserve was not given up; it runs out by itself", "error", err)
	}
}
