package schedule

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Why a delivery's context ended; ask with [context.Cause].
var (
	// ErrRevoked: the partition goes to another node, or this node has lost its place in
	// the group.
	ErrRevoked = errors.New("the group rebalances: its partitions are handed out again")
	// ErrStopped: the consumer stops, or leaves its groups.
	ErrStopped = errors.New("the consumer leaves its groups")
)

// Assignment is what one generation of a group gave this node of one topic. Offsets are
// completed and committed for an assignment, and no more once it is over.
//
// It goes through three phases. While it works, jobs are handed out. From [Scheduler.Drain]
// on none is, and those in flight are awaited. After [Scheduler.Close] nothing counts.
type Assignment struct {
	ctx    context.Context //nolint:containedctx // the context that Delivery.Context promises
	cancel context.CancelCauseFunc
	ended  atomic.Pointer[time.Time] // when ctx did

	over    context.Context //nolint:containedctx // ends when no outcome counts any more
	endOver context.CancelFunc
	// letters of jobs that were called may be written for half the drain: such a job is not
	// to be called again because its letter had not left yet.
	letters    context.Context //nolint:containedctx // of writes, not of a call
	endLetters context.CancelFunc

	idle        chan struct{} // closed when it drains and nothing is in flight
	hasRejected chan struct{} // rejected is not empty; one slot
	wake        chan struct{} // there is news for the fetcher; one slot, since a second notice says nothing new

	writing atomic.Int64 // records of its jobs without an outcome

	// Guarded by the scheduler's lock.
	parts    []*Partition // those that are being worked
	roomy    []*Partition // those that have room again, until the fetcher knows
	rejected []*Delivery  // until they are being written
	inFlight int          // handed out and not let go of, and rejected and not written
	draining bool         // nothing is handed out any more
	closed   bool         // no offset is completed any more
}

// NewAssignment makes an assignment without partitions.
func NewAssignment() *Assignment {
	a := &Assignment{idle: make(chan struct{}), hasRejected: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	a.over, a.endOver = context.WithCancel(context.Background())
	a.letters, a.endLetters = context.WithCancel(a.over)
	return a
}

// Context is the one that [Delivery.Context] promises.
func (a *Assignment) Context() context.Context { return a.ctx }

// End ends the context, and begins the time of the drain. Only the first call counts.
func (a *Assignment) End(cause error) {
	now := time.Now()
	if a.ended.CompareAndSwap(nil, &now) {
		a.cancel(cause)
	}
}

// Ended is when the context ended; zero: it has not.
func (a *Assignment) Ended() time.Time {
	if at := a.ended.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Over ends when the outcome of no record counts any more; EndOver ends it.
func (a *Assignment) Over() context.Context { return a.over }

// EndOver ends Over, and Letters with it.
func (a *Assignment) EndOver() { a.endOver() }

// Letters ends when a dead letter of a job that was called is given up unless it may have
// been written.
func (a *Assignment) Letters() context.Context { return a.letters }

// EndLetters ends Letters.
func (a *Assignment) EndLetters() { a.endLetters() }

// Idle is closed when the assignment drains and none of its jobs is in flight.
func (a *Assignment) Idle() <-chan struct{} { return a.idle }

// News tells the fetcher that a partition has room, or of whatever else it was woken for.
func (a *Assignment) News() <-chan struct{} { return a.wake }

// WakeFetcher sends such news.
func (a *Assignment) WakeFetcher() { notify(a.wake) }

// HasRejected tells that [Scheduler.Rejected] may have some.
func (a *Assignment) HasRejected() <-chan struct{} { return a.hasRejected }

// Writing counts the records of the assignment's jobs that have no outcome.
func (a *Assignment) Writing() *atomic.Int64 { return &a.writing }

// leaves notes that one job is not in flight any more.
func (a *Assignment) leaves() {
	if a.inFlight--; a.draining && a.inFlight == 0 {
		close(a.idle)
	}
}

// notify puts a notice into a channel of one slot.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
