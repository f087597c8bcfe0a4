package throttle

import (
	"context"
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/lease"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// LeaseLength is how long a lease of the reserve lasts, and so how long a node can send without
// Redis.
const LeaseLength = lease.Length

const (
	// awayAfter failures in a row Redis counts as away: one lost reply is none.
	awayAfter = 3
	// aheadOfCall is how far ahead slots of the lease are used: the next call may
	// hang for so long, and then be put off.
	aheadOfCall = callTimeout + retryMost
)

// leaseFunc asks Redis for a lease once, or gives it up.
type leaseFunc func(ctx context.Context, state script.LeaseState, left time.Duration) (script.LeaseReply, error)

// onLease reports whether the node sends by its lease: Redis was known, is away, and
// has not refused the node.
func (r *reserver) onLease(now time.Time) bool {
	return r.failures >= awayAfter && r.learned && !r.refusing && !r.known.Paused &&
		r.known.UnitsOfNode() > 0 && r.lease.Held(now)
}

// useLease answers requests of a lane with slots of the lease.
func (r *reserver) useLease(number int, asked []request, now time.Time) {
	r.lease.Next = clock.Later(r.lease.Next, r.lastSlot()) // slots rise
	slots := r.lease.Slots(r.known, now, aheadOfCall, costsOf(asked))
	for i, s := range slots {
		asked[i].answer.Slot = r.slots.Slot(s.NotBefore, s.NotAfter, r.known.Lateness, r.slots.Suspended(), nil) // a cut of the limit ends it
	}
	r.reservedAt = now
	units := unitsOf(asked[:len(slots)])
	r.pay(number, units)
	r.leases.Used.Add(float64(units))
}

// renewLease asks for a lease, or renews it, when that is due. Only a node that
// would see Redis's clock jump may ask.
func (r *reserver) renewLease(ctx context.Context) {
	asked := time.Now()
	defer func() { r.leases.Holds(r.lease.Held(time.Now())) }() // it may have run out since
	if r.known.UnitsOfNode() == 0 || r.failures > 0 || r.stepped || asked.Before(r.lease.AskAt) ||
		r.beginsAt.IsZero() || asked.Before(r.beginsAt) {
		return
	}
	cctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := r.askLease(cctx, r.lease.State(asked), 0)
	answered := time.Now()
	if err != nil {
		r.lease.AskAt = answered.Add(limit.PollMost)
		r.leases.Calls.WithLabelValues("failed").Inc()
		return
	}
	trusted := reply.Epoch == r.clock.Epoch
	if trusted {
		r.observe(clock.Reading{Asked: asked, Answered: answered, Now: reply.Now, Epoch: reply.Epoch})
		trusted = !r.stepped
	}
	had := r.lease.Held(answered)
	r.lease.Take(asked, reply.Granted, trusted)
	r.noteLease(had, answered)
}

// noteLease logs once that a lease was got or lost.
func (r *reserver) noteLease(had bool, now time.Time) {
	has, outcome := r.lease.Held(now), "refused"
	if has {
		outcome = "granted"
	}
	r.leases.Calls.WithLabelValues(outcome).Inc()
	if had != has {
		r.log.Info("lease of the reserve changed", "held", has, "units", r.known.UnitsOfNode(), "length", lease.Length)
	}
}

// giveLeaseUp tells Redis at a graceful end that the lease is free once its last
// slot is over; at any other end the lease runs out.
func (r *reserver) giveLeaseUp(ctx context.Context) {
	now := time.Now()
	if !r.lease.Held(now) || r.failures > 0 {
		return
	}
	left := -2 * limit.MaxWindow // never used
	if !r.lease.End.IsZero() {
		left = r.lease.End.Sub(now)
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if _, err := r.askLease(cctx, script.LeaseLeft, left); err != nil {
		r.log.Info("lease of the reserve was not given up; it runs out by itself", "error", err)
	}
}
