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

// An expired job is not called, and goes to the dead letters.
func TestAnExpiredJobIsNotCalled(t *testing.T) {
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
		b.until(time.Minute, "it is a dead letter", func() bool { return b.dead() == 1 })
	})
}

// A job that expires while it waits for its slot is not written, and goes to the dead
// letters.
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

// A permit ends with its context, and the job is released.
func TestAPermitEndsWithItsContext(t *testing.T) {
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
			return sender.Result{Kind: sender.NotSent, Err: err}
		}), d, s)
	})
}

// A permit under which nothing was written is given again while its slot is in time. After
// that it is for another slot.
func TestAPermitIsGivenAgainWhileItsSlotIsInTime(t *testing.T) {
	t.Parallel()
	atRate(t, 10, func(b *bubble) {
		b.writeMany(1)
		d, s := b.take(), b.ahead()
		b.handle(callerFunc(func(ctx context.Context, permit sender.Permit) sender.Result {
			first, err1 := permit(ctx)
			second, err2 := permit(ctx)
			if err1 != nil || err2 != nil || !first.At.Equal(s.NotAfter) || !second.At.Equal(first.At) {
				t.Errorf("got use-bys %v and %v, want that of the slot twice; errors %v and %v", first, second, err1, err2)
			}
			time.Sleep(time.Until(s.NotAfter))
			third, err := permit(ctx)
			if err != nil || third.At.Sub(first.At) < 100*time.Millisecond {
				t.Errorf("got use-by %v and %v after the slot was over, want that of another slot", third, err)
			}
			return sender.Result{Kind: sender.Accepted, WroteAt: time.Now()}
		}), d, s)
		b.until(time.Minute, "it is settled", func() bool { return b.settled() == 1 })
	})
}

// A job that takes longer to prepare than its slot is ahead is called once, at a later slot,
// and the others go on meanwhile.
func TestAJobThatIsSlowToPrepareIsCalled(t *testing.T) {
	t.Parallel()
	const jobs = 20
	s := setup{rate: 20, workers: 16, attempts: 3, failures: 20}
	inBubble(t, s, func(b *bubble) {
		b.writeMany(jobs)
		tries := 0
		b.answer = func(string, int) sender.Result { return accepted }
		b.dispatch(slowFirst{b, &tries}, alwaysReady{}, s.workers)
		b.until(5*time.Second, "all are settled", func() bool { return b.settled() == jobs })
		if tries != 1 || len(b.called("0")) != 1 {
			t.Errorf("got %d tries and %d calls of the slow job, want one", tries, len(b.called("0")))
		}
	})
}

// slowFirst needs long to prepare the first job.
type slowFirst struct {
	*bubble
	tries *int
}

func (s slowFirst) SendOn(ctx context.Context, on *sender.Conn, j job.Job, permit sender.Permit) sender.Result {
	if j.ID == "0" {
		*s.tries++
		time.Sleep(100 * time.Millisecond)
	}
	return s.bubble.SendOn(ctx, on, j, permit)
}

// A job that was sent before is settled without a call.
func TestAJobThatWasSentBeforeIsNotCalled(t *testing.T) {
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
		b.until(time.Minute, "it is settled", func() bool { return b.settled() == 1 })
	})
}
