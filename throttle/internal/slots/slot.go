package slots

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"dispatcher/internal/boottime"
	"dispatcher/internal/wait"
	"dispatcher/internal/wakeup"
)

// Slot is the permission to begin one call, at a time of its own. The times carry the
// node's monotonic clock and are not to be sent to another process.
type Slot struct {
	NotBefore time.Time
	NotAfter  time.Time

	lateness time.Duration // by how much NotAfter is behind the slot

	valid  *Validity     // of the node that reserved it; nil: nothing but its time ends it
	slept  time.Duration // for how long the host had been suspended when the slot was asked for
	since  int64         // the generation of slots that it belongs to
	charge *Charge       // nil: it counts on no limit in Redis
}

// ErrGivenUp says that a slot was given up, or that there is no other one for long: the
// limit was cut or paused, or has lost its timeline, or Redis does not answer. The job waits where it came from.
var ErrGivenUp = errors.New("the slot was given up")

// ErrLate says that a slot's time is over: the call must not be made with it.
var ErrLate = errors.New("the slot's time is over")

// Wait sleeps until the slot's time has come. It returns [ErrLate] when it is
// over, [ErrGivenUp] when the slot was given up, and the context's cause when the context
// ends first.
func (s Slot) Wait(ctx context.Context) error {
	if err := sleepUntil(ctx, s.NotBefore); err != nil {
		return err
	}
	switch {
	case s.GivenUp():
		return ErrGivenUp
	case s.OverAt(time.Now().Add(Margin)):
		return ErrLate
	}
	return nil
}

// Validity knows what ends the slots of a node before their time. It is for any goroutine.
type Validity struct {
	suspended  func() time.Duration // for how long the host has been suspended since it booted
	last       func() time.Duration // what suspended returned last, to whomever
	generation atomic.Int64         // slots of earlier ones were given up
}

// NewValidity is for slots that end with a suspension of the host, as these functions of [boottime] count it.
func NewValidity(suspended, last func() time.Duration) *Validity {
	return &Validity{suspended: suspended, last: last}
}

// Suspended is for how long the host has been suspended since it booted.
func (v *Validity) Suspended() time.Duration { return v.suspended() }

// GiveUp ends all slots that are out.
func (v *Validity) GiveUp() { v.generation.Add(1) }

// Slot is a new one, that was asked for when the host had been suspended for so long. It may be used
// until the lateness is over, which notAfter includes. It counts what charge says; nil: on no limit in Redis.
func (v *Validity) Slot(notBefore, notAfter time.Time, lateness, suspended time.Duration, charge *Charge) Slot {
	return Slot{
		NotBefore: notBefore, NotAfter: notAfter, lateness: lateness,
		valid: v, slept: suspended, since: v.generation.Load(), charge: charge,
	}
}

// GivenUp reports whether the slot ended before its time: since then the limit or a gate was cut or
// paused, the provider blocked the limit, or the clock has stepped.
func (s Slot) GivenUp() bool { return s.valid != nil && s.since != s.valid.generation.Load() }

// Deadline is a time that was reckoned when the slot was asked for, or later.
func (s Slot) Deadline(at time.Time) boottime.Deadline {
	return boottime.Deadline{At: at, Suspended: s.slept}
}

// Margin is the time from a call's permit to its write. A slot that has
// less than this left would be found late at the wire, where that costs more.
const Margin = 200 * time.Microsecond

// WaitNear sleeps until the slot is no more than lead away, so that the call's
// connection can be made ready.
func (s Slot) WaitNear(ctx context.Context, lead time.Duration) error {
	return sleepUntil(ctx, s.NotBefore.Add(-lead))
}

// Charge is what the slot counts; nil: on no limit in Redis.
func (s Slot) Charge() *Charge { return s.charge }

// LateBy is how late a call at t would be, as the lateness counts it: it is in
// time with a lateness of that much. Negative where it would be early.
func (s Slot) LateBy(t time.Time) time.Duration { return t.Sub(s.NotAfter) + s.lateness }

// LateAt reports whether the slot's time is over at t.
func (s Slot) LateAt(t time.Time) bool { return t.After(s.NotAfter) }

// OverAt reports whether the slot must not be used at t any more: its time is over, or the limit was cut since, or the host was
// suspended, as far as somebody has read that. The reading that counts is made when the call's first byte is written, by its
// [Slot.Deadline].
func (s Slot) OverAt(t time.Time) bool {
	if s.valid == nil {
		return s.LateAt(t)
	}
	return s.GivenUp() || s.Deadline(s.NotAfter).Over(t, s.valid.last)
}

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
	w := wakeup.In(d)
	defer w.Free()
	if !wait.For(ctx, time.Until(t)) {
		return context.Cause(ctx)
	}
	return nil
}

// LeastLate is how late a node begins each call at least, if it knows Redis's clock to this width: the width, the margin before the
// write, and the timer that wakes the caller. A node can use slots only with a longer lateness.
func LeastLate(width time.Duration) time.Duration {
	const timer = 300 * time.Microsecond
	return width + Margin + timer
}
