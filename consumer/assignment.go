package consumer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// errFenced: the group has moved on without this member. There is nothing to
// wait for, and nothing that could still be committed.
var errFenced = errors.New("the group no longer knows this member")

// assignment is what one generation gave this node of one topic. Marks and
// commits belong to it and end with it.
type assignment struct {
	g      *group
	gen    *kafka.Generation
	ctx    context.Context //nolint:containedctx // the context that Delivery.Context promises
	cancel context.CancelCauseFunc
	idle   chan struct{} // closed when it drains and nothing is in hand

	// Guarded by the hub's lock, apart from parts, which is fixed before the
	// hub sees the assignment.
	parts    []*partition
	inHand   int
	isIdle   bool
	draining bool // nothing is handed out any more
	over     bool // nothing is marked any more
}

func newAssignment(g *group, gen *kafka.Generation) *assignment {
	a := &assignment{g: g, gen: gen, idle: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	return a
}

func (a *assignment) setIdle() {
	if !a.isIdle {
		a.isIdle = true
		close(a.idle)
	}
}

// run works the partitions until the consumer stops, the generation ends or
// the group refuses the member. Then it drains and commits. It returns whether
// the group refused.
func (a *assignment) run(stopped, revoked <-chan struct{}) bool {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer a.cancel(nil)
	wg.Go(func() { a.watch(stopped, revoked) })
	hub := a.g.c.hub
	if a.begin() {
		hub.open(a)
		a.g.c.state.join(a.g.topic, true)
		a.g.c.metrics.rebalances.WithLabelValues(a.g.topic).Inc()
		for _, p := range a.parts {
			wg.Go(func() { a.fetchLoop(p) })
		}
		a.commitLoop(a.ctx.Done(), nil)
	}
	a.g.c.state.join(a.g.topic, false)
	hub.drain(a)
	a.awaitCalls()
	a.commitLast(hub.close(a))
	return errors.Is(context.Cause(a.ctx), errFenced)
}

// watch ends the deliveries' context with its cause.
func (a *assignment) watch(stopped, revoked <-chan struct{}) {
	select {
	case <-stopped:
		a.cancel(ErrStopped)
	case <-revoked:
		a.cancel(ErrRevoked)
	case <-a.ctx.Done():
	}
}

// begin finds out where to start; false: the assignment ended before that.
func (a *assignment) begin() bool {
	for n := 0; a.ctx.Err() == nil; n++ {
		err := a.locate()
		if err == nil {
			return true
		}
		if a.ctx.Err() == nil {
			a.g.c.state.failed(err)
			a.g.log().Warn("could not read the committed offsets, trying again", "error", err)
		}
		pause(a.ctx, backoff(n, 100*time.Millisecond, 2*time.Second))
	}
	return false
}

// awaitCalls waits until everything in hand is settled, as long as the drain
// allows, and commits as it goes.
func (a *assignment) awaitCalls() {
	if errors.Is(context.Cause(a.ctx), errFenced) {
		return
	}
	t := time.NewTimer(a.g.c.opts.Drain)
	defer t.Stop()
	a.commitLoop(a.idle, t.C)
	select {
	case <-a.idle:
	default:
		a.g.log().Warn("calls were still under way at the end of the drain, their jobs will be sent again")
	}
}
