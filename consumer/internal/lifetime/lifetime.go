package lifetime

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Why [Lifetime.Context] ended; ask with [context.Cause].
var (
	// ErrRevoked: the partition goes to another node, or this node has lost its place in
	// the group.
	ErrRevoked = errors.New("the group rebalances: its partitions are handed out again")
	// ErrStopped: the consumer stops, or leaves its groups.
	ErrStopped = errors.New("the consumer leaves its groups")
)

// Lifetime is that of one assignment. Make it with [New].
type Lifetime struct {
	ctx    context.Context //nolint:containedctx // of the jobs, whose calls go on
	cancel context.CancelCauseFunc
	ended  atomic.Pointer[time.Time] // when ctx did

	calls    context.Context //nolint:containedctx // of jobs that have a slot
	endCalls context.CancelCauseFunc

	writes    context.Context //nolint:containedctx // of writes, not of a call
	endWrites context.CancelFunc
	over      context.Context //nolint:containedctx // ends when no outcome counts any more
	endOver   context.CancelFunc

	writing atomic.Int64 // records without an outcome
}

// New makes a lifetime that has begun.
func New() *Lifetime {
	l := new(Lifetime)
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.over, l.endOver = context.WithCancel(context.Background())
	l.calls, l.endCalls = context.WithCancelCause(l.over)
	l.writes, l.endWrites = context.WithCancel(l.over)
	return l
}

// Context ends when the assignment does; its cause says why.
func (l *Lifetime) Context() context.Context { return l.ctx }

// End ends Context, and begins the time of the drain. Only the first call counts.
func (l *Lifetime) End(cause error) {
	now := time.Now()
	if l.ended.CompareAndSwap(nil, &now) {
		l.cancel(cause)
	}
}

// Ended is when Context ended; zero: it has not.
func (l *Lifetime) Ended() time.Time {
	if at := l.ended.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Over ends when the outcome of no record counts any more; EndOver ends it.
func (l *Lifetime) Over() context.Context { return l.over }

// EndOver ends Calls where EndCalls has not yet, and then Over, and Writes with it.
func (l *Lifetime) EndOver() {
	l.EndCalls()
	l.endOver()
}

// Calls is the context for the call of a job that has a slot: it ends a little later than Context. Most limits count
// the slot whether it is used or not, and the drain awaits calls in any case.
func (l *Lifetime) Calls() context.Context { return l.calls }

// EndCalls ends Calls, after Context.
func (l *Lifetime) EndCalls() { l.endCalls(context.Cause(l.ctx)) }

// Writes is the context for a record of a job that was called. When it ends, the record is
// given up unless it may have been written. It ends later than Context: otherwise the job would
// be called again although its outcome was known.
func (l *Lifetime) Writes() context.Context { return l.writes }

// EndWrites ends Writes.
func (l *Lifetime) EndWrites() { l.endWrites() }

// Writing counts the records of the assignment's jobs that have no outcome.
func (l *Lifetime) Writing() *atomic.Int64 { return &l.writing }
