package lifetime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"dispatcher/consumer/internal/lifetime"
)

// Only the first cause counts, and the time of the drain begins with it.
func TestALifetimeEndsOnce(t *testing.T) {
	t.Parallel()
	l := lifetime.New()
	if !l.Ended().IsZero() || l.Context().Err() != nil {
		t.Fatalf("got a new one that ended at %v with %v, want one that has not", l.Ended(), l.Context().Err())
	}
	before := time.Now()
	l.End(lifetime.ErrRevoked)
	ended := l.Ended()
	l.End(lifetime.ErrStopped)
	if got := context.Cause(l.Context()); !errors.Is(got, lifetime.ErrRevoked) {
		t.Errorf("got the cause %v, want %v", got, lifetime.ErrRevoked)
	}
	if ended.Before(before) || !l.Ended().Equal(ended) {
		t.Errorf("got that it ended at %v, then at %v, want one time from %v on", ended, l.Ended(), before)
	}
}

// A job that has a slot may be called longer than others may wait, a record may be written longer, and its outcome counts longer
// still.
func TestTheContextsEndInTheirOrder(t *testing.T) {
	t.Parallel()
	l := lifetime.New()
	l.End(lifetime.ErrStopped)
	if l.Calls().Err() != nil || l.Writes().Err() != nil || l.Over().Err() != nil {
		t.Error("got calls or writes that end with the jobs, want them to go on")
	}
	l.EndCalls()
	if got := context.Cause(l.Calls()); !errors.Is(got, lifetime.ErrStopped) {
		t.Errorf("got calls that end with %v, want %v", got, lifetime.ErrStopped)
	}
	if l.Writes().Err() != nil {
		t.Error("got writes that end with the calls, want them to go on")
	}
	l.EndWrites()
	if l.Writes().Err() == nil || l.Over().Err() != nil {
		t.Errorf("got writes %v and outcomes %v, want only the writes to end", l.Writes().Err(), l.Over().Err())
	}
	removed := lifetime.New()
	removed.End(lifetime.ErrRevoked)
	removed.EndOver()
	if got := context.Cause(removed.Calls()); !errors.Is(got, lifetime.ErrRevoked) {
		t.Errorf("got calls that end with %v where nothing is waited for, want %v", got, lifetime.ErrRevoked)
	}
	other := lifetime.New()
	other.EndOver()
	if other.Calls().Err() == nil || other.Writes().Err() == nil || other.Over().Err() == nil {
		t.Error("got calls or writes that go on although no outcome counts any more")
	}
}
