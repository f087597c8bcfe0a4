// Package wait pauses a goroutine, and says for how long before another try.
package wait

import (
	"context"
	"time"
)

// For waits, or returns false because the context ended first.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Longer is a context that ends so long after ctx, with its cause, or when it is cancelled. Where ctx has ended before, it counts from
// now. It has no values.
func Longer(ctx context.Context, by time.Duration) (longer context.Context, cancel context.CancelFunc) {
	longer, end := context.WithCancelCause(context.Background())
	later := func() { end(context.Cause(ctx)) }
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(by, later) })
	return longer, func() {
		stop()
		end(context.Canceled)
	}
}

// Backoff is the wait before try n, from 0 on: it doubles from least to most.
func Backoff(n int, least, most time.Duration) time.Duration {
	return min(least<<min(n, 16), most)
}
