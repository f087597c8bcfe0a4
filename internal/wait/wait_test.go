package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/internal/wait"
)

// A longer context ends so long after the other one, with its cause, or when it is cancelled.
func TestALongerContextEndsLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		ctx, end := context.WithCancelCause(t.Context())
		longer, cancel := wait.Longer(ctx, time.Second)
		defer cancel()
		cancelled, cancel := wait.Longer(ctx, time.Second)
		cancel()
		if !errors.Is(context.Cause(cancelled), context.Canceled) {
			t.Errorf("got %v for one that was cancelled, want %v", context.Cause(cancelled), context.Canceled)
		}
		begun := time.Now()
		end(why)
		<-longer.Done()
		if got := time.Since(begun); got != time.Second || !errors.Is(context.Cause(longer), why) {
			t.Errorf("got its end after %v with %v, want %v and %v", got, context.Cause(longer), time.Second, why)
		}
	})
}
