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

// ahead returns the second of two slots that follow one another: it lies ahead.
func (w *world) ahead() throttle.Slot {
	w.Helper()
	w.slot()
	s := w.slot()
	if lead := time.Until(s.NotBefore); lead < 20*time.Millisecond {
		w.Fatalf("got a slot %v ahead, want time for a test", lead)
	}
	return s
}

// sameSlot says that the next slot is the one that was given back.
func (w *world) sameSlot(given throttle.Slot) {
	w.Helper()
	if next := w.slot(); next != given {
		w.Errorf("the next slot is %v later than the one that was not used; want that one", next.NotBefore.Sub(given.NotBefore))
	}
}

// An expired job is not called, goes to the dead letters, and leaves its slot to
// the next job.
func TestAnExpiredJobGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	inWorld(t, 10, func(w *world) {
		w.write(expiring(time.Now().Add(2 * time.Second)))
		d := w.take()
		time.Sleep(time.Until(d.Job.NotAfter) + time.Millisecond)
		s := w.ahead()
		w.handle(callerFunc(func(context.Context, sender.Permit) sender.Result {
			t.Error("the job was called")
			return sender.Result{Kind: sender.Accepted}
		}), d, s)
		w.sameSlot(s)
		w.until("it is a dead letter", func() bool { return w.dead() == 1 })
	})
}

// A job that expires while it waits at the wire is not written, goes to the dead
// letters, and leaves its slot to the next job.
func TestAJobThatExpiresAtTheWireIsNotWritten(t *testing.T) {
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
			inWorld(t, 10, func(w *world) {
				w.writeMany(1)
				d := w.take()
				s := w.ahead()
				d.Job.NotAfter = s.NotBefore.Add(c.after)
				written := false
				w.handle(callerFunc(func(ctx context.Context, permit sender.Permit) sender.Result {
					if _, err := permit(ctx); err != nil {
						w.sameSlot(s)
						return sender.Result{Kind: sender.NotSent, Err: err}
					}
					written = true
					return sender.Result{Kind: sender.Accepted, WroteAt: time.Now()}
				}), d, s)
				if written != c.written {
					t.Errorf("written: %v, want %v", written, c.written)
				}
				dead := map[bool]int64{false: 1, true: 0}[c.written]
				w.until("it is settled", func() bool { return w.settled() == 1 })
				if w.dead() != dead {
					t.Errorf("got %d dead letters, want %d", w.dead(), dead)
				}
			})
		})
	}
}

// A permit that fails keeps no slot: the next job has it at once, and not only when
// the call is over.
func TestAPermitThatFailsGivesItsSlotBack(t *testing.T) {
	t.Parallel()
	inWorld(t, 10, func(w *world) {
		w.writeMany(1)
		d, s := w.take(), w.ahead()
		w.handle(callerFunc(func(ctx context.Context, permit sender.Permit) sender.Result {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			_, err := permit(ctx)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the end of the context", err)
			}
			w.sameSlot(s)
			return sender.Result{Kind: sender.NotSent, Err: err}
		}), d, s)
	})
}

// A permit that is asked for again, since nothing was written under it, is one for
// another slot.
func TestAPermitThatWasNotUsedIsNotGivenTwice(t *testing.T) {
	t.Parallel()
	inWorld(t, 10, func(w *world) {
		w.writeMany(1)
		d, s := w.take(), w.ahead()
		w.handle(callerFunc(func(ctx context.Context, permit sender.Permit) sender.Result {
			first, err1 := permit(ctx)
			second, err2 := permit(ctx)
			if err1 != nil || err2 != nil || !first.Equal(s.NotAfter) || second.Sub(first) < 100*time.Millisecond {
				t.Errorf("got use-bys %v apart, want those of two slots; errors %v and %v", second.Sub(first), err1, err2)
			}
			return sender.Result{Kind: sender.Accepted, WroteAt: time.Now()}
		}), d, s)
		w.until("it is settled", func() bool { return w.settled() == 1 })
	})
}

// A job that the dedup store refuses leaves its slot too.
func TestAJobThatWasSentBeforeKeepsNoSlot(t *testing.T) {
	t.Parallel()
	inWorld(t, 10, func(w *world) {
		w.writeMany(1)
		d, s := w.take(), w.ahead()
		w.handle(callerFunc(func(ctx context.Context, permit sender.Permit) sender.Result {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(&dedup.RefusedError{Answer: dedup.Answer{Standing: dedup.Sent}})
			_, err := permit(ctx)
			return sender.Result{Kind: sender.NotSent, Err: err}
		}), d, s)
		w.sameSlot(s)
		w.until("it is settled", func() bool { return w.settled() == 1 })
	})
}
