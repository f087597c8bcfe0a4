package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"dispatcher/internal/dedup"
	"dispatcher/job"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// expiring returns a job that must not be called after a time.
func expiring(at time.Time) job.Record {
	return job.Record{Value: []byte(`{"id":"a"}`), Headers: []job.Header{{Key: "not-after", Value: []byte(at.UTC().Format(time.RFC3339Nano))}}}
}

// ahead returns a slot that lies ahead: the second of two.
func (b *bubble) ahead() throttle.Slot {
	b.Helper()
	b.slot()
	s := b.slot()
	if lead := time.Until(s.NotBefore); lead < 20*time.Millisecond {
		b.Fatalf("got a slot %v ahead, want time for a test", lead)
	}
	return s
}

// sameSlot demands that the next slot is the one that was given back.
func (b *bubble) sameSlot(given throttle.Slot) {
	b.Helper()
	if next := b.slot(); next != given {
		b.Errorf("the next slot is %v later than the one that was not used; want that one", next.NotBefore.Sub(given.NotBefore))
	}
}

// An expired job is not called, goes to the dead letters, and leaves its slot to
// the next job.
func TestAnExpiredJobGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	atRate(t, 10, func(b *bubble) {
		b.write(expiring(time.Now().Add(2 * time.Second)))
		d := b.take()
		time.Sleep(time.Until(d.Job.NotAfter) + time.Millisecond)
		s := b.ahead()
		b.handle(callerFunc(func(context.Context, sender.Permit) sender.Result {
			t.Error("the job was called")
			return sender.Result{Kind: sender.Accepted}
		}), d, s)
		b.sameSlot(s)
		b.until(time.Minute, "it is a dead letter", func() bool { return b.dead() == 1 })
	})
}

// A job that expires while it waits for its slot is not written, goes to the dead
// letters, and leaves its slot to the next job.
func TestAJobThatExpiresBeforeItsSlotIsNotWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after   time.Duration // not-after, from the slot's time
		written bool
	}{
		"just before its slot": {-time.Nanosecond, false},
		"long before":          {-10 * time.Millisecond, false},
		"with its slot":        {0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atRate(t, 10, func(b *bubble) {
				b.writeMany(1)
				d := b.take()
				s := b.ahead()
				d.Job.NotAfter = s.NotBefore.Add(c.after)
				written := false
				b.handle(callerFunc(func(ctx context.Context, permit sender.Permit) sender.Result {
					if _, err := permit(ctx); err != nil {
						b.sameSlot(s)
						return sender.Result{Kind: sender.NotSent, Err: err}
					}
					written = true
					return sender.Result{Kind: sender.Accepted, WroteAt: time.Now()}
				}), d, s)
				if written != c.written {
					t.Errorf("written: %v, want %v", written, c.written)
				}
				dead := map[bool]int64{false: 1, true: 0}[c.written]
				b.until(time.Minute, "it is settled", func() bool { return b.settled() == 1 })
				if b.dead() != dead {
					t.Errorf("got %d dead letters, want %d", b.dead(), dead)
				}
			})
		})
	}
}

// A permit that fails gives its slot back at once, and not only when the call is over.
func TestAPermitThatFailsGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	atRate(t, 10, func(b *bubble) {
		b.writeMany(1)
		d, s := b.take(), b.ahead()
		b.handle(callerFunc(func(ctx context.Context, permit sender.Permit) sender.Result {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			_, err := permit(ctx)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the end of the context", err)
			}
			b.sameSlot(s)
			return sender.Result{Kind: sender.NotSent, Err: err}
		}), d, s)
	})
}

// A second permit for a call, after nothing was written under the first, is for another
// slot.
func TestAPermitThatWasNotUsedIsNotGivenTwice(t *testing.T) {
	t.Parallel()
	atRate(t, 10, func(b *bubble) {
		b.writeMany(1)
		d, s := b.take(), b.ahead()
		b.handle(callerFunc(func(ctx context.Context, permit sender.Permit) sender.Result {
			first, err1 := permit(ctx)
			second, err2 := permit(ctx)
			if err1 != nil || err2 != nil || !first.Equal(s.NotAfter) || second.Sub(first) < 100*time.Millisecond {
				t.Errorf("got use-bys %v apart, want those of two slots; errors %v and %v", second.Sub(first), err1, err2)
			}
			return sender.Result{Kind: sender.Accepted, WroteAt: time.Now()}
		}), d, s)
		b.until(time.Minute, "it is settled", func() bool { return b.settled() == 1 })
	})
}

// A job that the dedup store refuses gives its slot back too.
func TestAJobThatWasSentBeforeKeepsNoSlot(t *testing.T) {
	t.Parallel()
	atRate(t, 10, func(b *bubble) {
		b.writeMany(1)
		d, s := b.take(), b.ahead()
		b.handle(callerFunc(func(ctx context.Context, permit sender.Permit) sender.Result {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(&dedup.RefusedError{Answer: dedup.Answer{Standing: dedup.Sent}})
			_, err := permit(ctx)
			return sender.Result{Kind: sender.NotSent, Err: err}
		}), d, s)
		b.sameSlot(s)
		b.until(time.Minute, "it is settled", func() bool { return b.settled() == 1 })
	})
}
