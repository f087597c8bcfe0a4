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

// Backoff is the wait before try n, from 0 on: it doubles from least to most.
func Backoff(n int, least, most time.Duration) time.Duration {
	return min(least<<min(n, 16), most)
}
