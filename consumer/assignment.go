package consumer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/wait"

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
	idle   chan struct{}   // closed when it drains and nothing is in hand
	doom   chan struct{}   // condemned is not empty; one slot
	life   context.Context //nolint:containedctx // ends when no outcome counts any more
	finish context.CancelFunc
	// letters of jobs that were called go on for half the drain: such a job is not
	// to be called again because its letter had not left yet.
	letters    context.Context //nolint:containedctx // of writes, not of a call
	endLetters context.CancelFunc
	fresh      bool // the group has committed nothing yet, in no partition

	fetch *fetcher
	wake  chan struct{} // there is news for fetch; one slot, since a second word says nothing new

	anew      atomic.Bool                  // the topic is not the one that the offsets belong to
	id        atomic.Pointer[topicname.ID] // of the topic that they belong to; nil: not known
	described chan struct{}                // closed when the cluster has first answered about the topic
	soon      chan struct{}                // ask about the topic before the next second; one slot
	looked    chan struct{}                // closed when anew is known for the last commits
	gone      bool                         // the topic does not exist; the watcher's until looked is closed
	newID     topicname.ID                 // as last seen; likewise

	writing atomic.Int64 // records of its jobs without an outcome

	once  sync.Once
	ended time.Time // when ctx did; written before that, read only after it

	// Guarded by the hub's lock.
	parts     []*partition // those that are being worked
	roomy     []*partition // those that have room again, until the fetcher knows
	condemned []*Delivery  // records that are no job, on their way to the dead letters
	inHand    int
	isIdle    bool
	draining  bool // nothing is handed out any more
	over      bool // nothing is marked any more
}

func newAssignment(g *group, gen *kafka.Generation) *assignment {
	a := &assignment{
		g: g, gen: gen, idle: make(chan struct{}), doom: make(chan struct{}, 1), fresh: g.fresh.Load(),
		wake: make(chan struct{}, 1), described: make(chan struct{}), soon: make(chan struct{}, 1), looked: make(chan struct{}),
	}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	a.fetch = newFetcher(a)
	a.life, a.finish = context.WithCancel(context.Background())
	a.letters, a.endLetters = context.WithCancel(a.life)
	return a
}

// wakeFetcher tells the fetcher that there is room, or something else for it.
func (a *assignment) wakeFetcher() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// end begins the drain, the clock of which starts here.
func (a *assignment) end(cause error) {
	a.once.Do(func() {
		a.ended = time.Now()
		a.cancel(cause)
	})
}

// drainLeft is how long something that begins now may take: most of it, and
// once the assignment has ended no longer than the drain.
func (a *assignment) drainLeft(most time.Duration) time.Duration {
	if a.ctx.Err() == nil {
		return most
	}
	return max(min(most, time.Until(a.ended.Add(a.g.c.opts.Drain))), 0)
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
	defer a.g.c.state.forget(a.g.topic)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer a.finish()
	defer a.end(context.Canceled)
	wg.Go(func() { a.watch(stopped, revoked) })
	wg.Go(a.buryAll)
	wg.Go(a.watchTopic)
	wg.Go(a.fetch.run)
	wg.Go(a.begin)
	a.commitLoop(a.ctx.Done(), nil)
	defer time.AfterFunc(a.drainLeft(a.g.c.opts.Drain)/2, a.endLetters).Stop()
	hub := a.g.c.hub
	hub.drain(a)
	a.awaitCalls()
	a.awaitWrites(stopped)
	points := hub.close(a)
	a.finish()
	a.commitLast(points, stopped)
	cause := context.Cause(a.ctx)
	a.g.log().Info("partitions drained", "topic", a.g.topic, "partitions", len(a.parts), "cause", cause)
	return errors.Is(cause, errFenced)
}

// watch ends the deliveries' context with its cause, and the handing out with
// it: the commit that may be under way is not waited for.
func (a *assignment) watch(stopped, revoked <-chan struct{}) {
	select {
	case <-stopped:
		a.end(ErrStopped)
	case <-revoked:
		a.end(ErrRevoked)
	case <-a.ctx.Done():
	}
	a.g.c.hub.drain(a)
}

// begin finds out where to start, and starts each partition as soon as that is
// known: one without a leader holds up itself alone. Before that it has to be
// known which topic this is: committed offsets may belong to another one.
func (a *assignment) begin() {
	select {
	case <-a.described:
	case <-a.ctx.Done():
		return
	}
	var todo []int
	for _, p := range a.gen.Assignments[a.g.topic] {
		todo = append(todo, p.ID)
	}
	met := false
	for n := 0; ; n++ {
		parts, missing, err := a.locate(todo)
		if err == nil || len(parts) > 0 {
			if !a.g.c.hub.open(a, parts) {
				return
			}
			if !met {
				met = true
				a.meet(len(todo))
			}
		}
		for _, p := range parts {
			a.g.c.state.works(source{sourceFetch, a.g.topic, p.id})
			a.fetch.add(p)
		}
		if todo = missing; len(todo) == 0 || a.ctx.Err() != nil {
			return
		}
		a.unlocated(todo, err)
		if !wait.For(a.ctx, wait.Backoff(n, 100*time.Millisecond, 2*time.Second)) {
			return
		}
	}
}

// meet says that the member has its part of the topic.
func (a *assignment) meet(partitions int) {
	a.g.c.state.joined()
	a.g.c.metrics.rebalances.WithLabelValues(a.g.topic).Inc()
	before := a.g.had.Swap(int64(partitions))
	a.g.log().Info("partitions assigned", "topic", a.g.topic, "partitions", partitions, "before", before)
	if partitions == 0 {
		a.g.log().Warn("no partition is left for this member: the group has more members than the topic has partitions")
	}
}

// unlocated notes the partitions that can't be started yet.
func (a *assignment) unlocated(ids []int, err error) {
	tell := false
	for _, id := range ids {
		if a.g.c.state.fails(source{sourceFetch, a.g.topic, id}, err, fetchPatience) {
			tell = true
		}
	}
	if tell {
		a.g.log().Warn("could not find out where to begin, trying again", "partitions", ids, "error", err)
	}
}

// awaitCalls waits until everything in hand is settled, as long as the drain
// allows, and commits as it goes.
func (a *assignment) awaitCalls() {
	if errors.Is(context.Cause(a.ctx), errFenced) {
		return
	}
	t := time.NewTimer(a.drainLeft(a.g.c.opts.Drain))
	defer t.Stop()
	a.commitLoop(a.idle, t.C)
	select {
	case <-a.idle:
	default:
		a.g.log().Warn("calls were still under way at the end of the drain, their jobs will be sent again")
	}
}
