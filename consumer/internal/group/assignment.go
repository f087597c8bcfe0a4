package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"dispatcher/consumer/internal/fetch"
	"dispatcher/consumer/internal/lifetime"
	"dispatcher/consumer/internal/schedule"
	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/wait"

	"github.com/segmentio/kafka-go"
)

// errRemoved: the group has moved on without this member. There is nothing to wait for, and
// nothing can be committed any more.
var errRemoved = fmt.Errorf("the group no longer knows this member: %w", lifetime.ErrRevoked)

// assignment is the group's side of a [schedule.Assignment].
type assignment struct {
	*schedule.Assignment

	g     *Group
	gen   *kafka.Generation
	fresh int // a partition below that begins at the end of its log if nothing is committed
	fetch *fetch.Fetcher

	recreated atomic.Bool                  // the topic is not the one that the offsets belong to
	id        atomic.Pointer[topicname.ID] // of the topic that they belong to; zero: not known
	described chan struct{}                // closed when the cluster has first described the topic
	soon      chan struct{}                // a notice to describe the topic at once; one slot
	checked   chan struct{}                // closed when recreated is known for the last commits
	newID     topicname.ID                 // as last seen; owned by watchTopic until checked is closed
	gone      bool                         // the topic does not exist; owned by watchTopic
	assigned  int                          // how many partitions this member assigned; or notLeader
	differs   time.Time                    // since when the topic has another number; zero: it has not; owned by watchTopic
}

func newAssignment(g *Group, gen *kafka.Generation) *assignment {
	a := &assignment{
		Assignment: g.o.Scheduler.NewAssignment(), g: g, gen: gen,
		fresh: int(g.fresh.Load()), assigned: int(g.balancer.assigned.Load()),
		described: make(chan struct{}), soon: make(chan struct{}, 1), checked: make(chan struct{}),
	}
	a.id.Store(new(topicname.ID))
	a.fetch = fetch.New(fetch.Options{
		Assignment: a.Assignment, Source: g.o.Source, Client: g.o.Client, Health: g.o.Health, Log: g.o.Log,
		Limits: g.o.Limits, OutOfRange: g.o.OutOfRange,
		LeaderMoved: a.describeSoon, Rejoin: func() { a.End(errRemoved) }, Refuse: g.o.Refuse,
	})
	return a
}

// drainLeft is how long an action that begins now may take: most, and once the assignment
// has ended no longer than the drain.
func (a *assignment) drainLeft(most time.Duration) time.Duration {
	ended := a.Ended()
	if ended.IsZero() {
		return most
	}
	return max(min(most, time.Until(ended.Add(a.g.o.Drain))), 0)
}

// run works the partitions until the consumer stops, the generation ends, the group refuses
// the member or the topic has other partitions. Then it drains and commits. It returns
// whether the member is to end the generation itself.
func (a *assignment) run(stopped, revoked <-chan struct{}) (rejoin bool) {
	defer a.g.o.Health.Forget(a.g.topic())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer a.EndOver()
	defer a.End(context.Canceled)
	wg.Go(func() { a.watch(stopped, revoked) })
	wg.Go(func() { a.g.o.Settler.RunDiverted(a.Assignment) })
	wg.Go(a.watchTopic)
	wg.Go(a.fetch.Run)
	wg.Go(a.begin)
	a.commitLoop(a.Context().Done(), nil)
	defer time.AfterFunc(a.drainLeft(a.g.o.Drain)/2+a.g.o.SlotTime, a.EndWrites).Stop()
	a.Drain()
	a.awaitCalls()
	a.awaitWrites(stopped)
	last, partitions := a.Close()
	a.EndOver()
	a.commitLast(last, stopped)
	cause := context.Cause(a.Context())
	a.g.o.Log.Info("partitions drained", "topic", a.g.topic(), "partitions", partitions, "cause", cause)
	return errors.Is(cause, errRemoved) || errors.Is(cause, errPartitions)
}

// watch ends the deliveries' context with its cause, and begins the drain. It does not wait
// for a commit that may be under way. It ends the calls of jobs that have a slot a little later.
func (a *assignment) watch(stopped, revoked <-chan struct{}) {
	select {
	case <-stopped:
		a.End(lifetime.ErrStopped)
	case <-revoked:
		a.End(lifetime.ErrRevoked)
	case <-a.Context().Done():
	}
	a.Drain()
	a.awaitSlots()
	a.EndCalls()
}

// begin starts each partition as soon as its start is known. A partition without a leader holds
// up no other; one whose leader does not answer does so for a short time. First begin waits for
// the first answer about the topic, which mostly has its id: committed offsets may belong to an
// older topic of that name.
func (a *assignment) begin() {
	select {
	case <-a.described:
	case <-a.Context().Done():
		return
	}
	var todo []int
	for _, p := range a.gen.Assignments[a.g.topic()] {
		todo = append(todo, p.ID)
	}
	assigned := false
	for n := 0; ; n++ {
		parts, missing, err := a.startPartitions(todo)
		if err == nil || len(parts) > 0 {
			if !a.Open(parts) {
				return
			}
			if !assigned {
				assigned = true
				a.noteAssigned(len(todo))
			}
		}
		for _, p := range parts {
			a.g.o.Health.Works(a.g.fetchOf(p.ID()))
			a.fetch.Add(p)
		}
		if todo = missing; len(todo) == 0 || a.Context().Err() != nil {
			return
		}
		a.noteNotStarted(todo, err)
		if !wait.For(a.Context(), wait.Backoff(n, 100*time.Millisecond, 2*time.Second)) {
			return
		}
	}
}

// noteAssigned notes that the member has its part of the topic.
func (a *assignment) noteAssigned(partitions int) {
	a.g.o.Health.Joined()
	a.g.o.Metrics.rebalances.WithLabelValues(a.g.topic()).Inc()
	before := a.g.had.Swap(int64(partitions))
	a.g.o.Log.Info("partitions assigned", "topic", a.g.topic(), "partitions", partitions, "before", before)
	switch {
	case partitions > 0:
	case a.assigned == 0:
		a.g.o.Log.Warn("no partition assigned: the group's coordinator does not know the topic yet", "topic", a.g.topic())
	default:
		a.g.o.Log.Warn("no partition assigned: the group has more members than the topic has partitions")
	}
}

// noteNotStarted notes the partitions that can't be started yet.
func (a *assignment) noteNotStarted(ids []int, err error) {
	warn := false
	for _, id := range ids {
		if a.g.o.Health.Fails(a.g.fetchOf(id), err, fetch.Patience) {
			warn = true
		}
	}
	if warn {
		a.g.o.Log.Warn("could not read start offsets, trying again", "partitions", ids, "error", err)
	}
}
