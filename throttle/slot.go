package throttle

import (
	"context"
	"errors"
	"time"
)

// Slot is the permission to begin one call, at a time of its own. The times carry the
// node's monotonic clock and are not to be sent to another process.
type Slot struct {
	NotBefore time.Time
	NotAfter  time.Time

	host  *host         // that the slot was mapped on; nil: its suspensions are not seen
	slept time.Duration // for how long it had been suspended when the slot was asked for

	lateness time.Duration // by how much NotAfter is behind the slot
	full     bool          // no slot but a refusal, good until NotAfter: a full bucket had no room
}

// orFull tells a slot from a refusal.
func (s Slot) orFull() (Slot, error) {
	if s.full {
		return Slot{}, ErrFull
	}
	return s, nil
}

// ErrFull says that the bucket had no room, and that callers are not to wait.
var ErrFull = errors.New("the bucket is full")

// ErrLate says that a slot's time is over: the call must not be made with it.
var ErrLate = errors.New("the slot's time is over")

// Wait sleeps until the slot's time has come. It returns [ErrLate] when it is
// over, and the context's cause when the context ends first.
func (s Slot) Wait(ctx context.Context) error {
	if err := sleepUntil(ctx, s.NotBefore); err != nil {
		return err
	}
	if s.LateAt(time.Now().Add(margin)) || s.sleptThrough() {
		return ErrLate
	}
	return nil
}

// host knows for how long the machine has been suspended since it booted. The
// monotonic clock stands still meanwhile, so a slot would look fresh afterwards.
type host struct{ suspended func() time.Duration }

// sleptMost is by how much two readings of a host that was not suspended differ.
const sleptMost = time.Millisecond

func (s Slot) sleptThrough() bool { return s.host != nil && s.host.suspended()-s.slept > sleptMost }

// margin is the time from a call's permit to its write. A slot that has
// less than this left would be found late at the wire, where that costs more.
const margin = 200 * time.Microsecond

// WaitNear sleeps until the slot is no more than lead away, so that the call's
// connection can be made ready.
func (s Slot) WaitNear(ctx context.Context, lead time.Duration) error {
	return sleepUntil(ctx, s.NotBefore.Add(-lead))
}

// lateBy is how late a call at t would be, as the lateness counts it: it is in
// time with a lateness of that much. Negative where it would be early.
func (s Slot) lateBy(t time.Time) time.Duration { return t.Sub(s.NotAfter) + s.lateness }

// LateAt reports whether the slot must not be used at t any more.
func (s Slot) LateAt(t time.Time) bool { return t.After(s.NotAfter) }

// IsZero reports whether s is no slot at all.
func (s Slot) IsZero() bool { return s.NotAfter.IsZero() }

func sleepUntil(ctx context.Context, t time.Time) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d := time.Until(t)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
