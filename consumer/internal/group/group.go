package group

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/health"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/schedule"
	"dispatcher/consumer/internal/settle"
	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/wait"
	"dispatcher/job"

	"github.com/segmentio/kafka-go"
)

// Options configures a [Group]. Times are those of the consumer.
type Options struct {
	ID         string // of the group
	Source     *schedule.Source
	Connection *broker.Connection
	Client     *broker.Client
	Scheduler  *schedule.Scheduler
	Settler    *settle.Settler
	Health     *health.Health
	Metrics    *Metrics
	Log        *slog.Logger

	Heartbeat, Session, Drain   time.Duration
	JoinBackoff, CommitInterval time.Duration
	SlotTime                    time.Duration // after the end of an assignment, in which a job that has a slot is called
	StartLast                   bool          // a new group begins with jobs that come from now on
	OutOfRange                  offsets.OutOfRange
	Limits                      job.Limits // of its jobs

	Refuse func(error) // ends the consumer, with all its groups, with an error
}

// Group is this node's membership in the group of one topic. Each topic has a group of its
// own: in one for several topics a missing topic leaves all of them without partitions.
type Group struct {
	o Options

	// fresh is how many partitions the topic had when this node came, if the group had committed
	// nothing then. It is 0 if the group had, once this node has, and in a recreated topic. Only
	// StartLast needs it.
	fresh  atomic.Int64
	had    atomic.Int64 // partitions, by the last assignment; for the log
	seenID topicname.ID // of the topic, as first seen; owned by the assignment's watchTopic

	balancer balancer
}

// New makes a group. It does not connect.
func New(o Options) *Group {
	o.Log = o.Log.With("group", o.ID)
	return &Group{o: o}
}

func (g *Group) topic() string { return g.o.Source.Topic }

// fetchOf names the fetching of a partition for [health.Health].
func (g *Group) fetchOf(partition int) health.Source {
	return health.Source{Doing: health.Fetch, Topic: g.topic(), Partition: partition}
}

func (g *Group) config() kafka.ConsumerGroupConfig {
	o := &g.o
	return kafka.ConsumerGroupConfig{
		ID: o.ID, Brokers: o.Connection.Brokers, Dialer: g.o.Client.Dialer, Topics: []string{g.topic()},
		GroupBalancers:    []kafka.GroupBalancer{&g.balancer},
		HeartbeatInterval: o.Heartbeat, SessionTimeout: o.Session, RebalanceTimeout: o.Session,
		JoinGroupBackoff: o.JoinBackoff, Timeout: 5 * time.Second, StartOffset: kafka.FirstOffset,
	}
}

// Run holds the membership until ctx ends or the cluster refuses it for good. Once it has joined, it tries again
// where it is refused.
//
// When ctx ends, the generation's function first drains and commits, while heartbeats go on.
// Then the member leaves the group. To leave first would stop the heartbeats.
func (g *Group) Run(ctx context.Context) error {
	if err := g.checkFresh(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	g.awaitStale(ctx)
	cg, err := kafka.NewConsumerGroup(g.config())
	if err != nil {
		return err
	}
	drained := make(chan struct{})
	close(drained)
	for joined := false; ; {
		gen, err := cg.Next(ctx)
		if ctx.Err() != nil && gen == nil {
			break
		}
		if err != nil {
			if !joined && broker.Permanent(err) {
				_ = cg.Close()
				return err
			}
			g.joinFailed(err)
			continue
		}
		joined = true
		drained = g.start(ctx, gen)
	}
	<-drained
	return cg.Close()
}

// checkFresh asks whether the group is new, for StartLast. It has to do so before the node
// joins: in the first generation another member may commit before this one asks. A standby
// commits nothing for weeks, so the answer holds for the partitions of that time alone. A retry
// topic is read from its beginning: its jobs are to be sent. It returns nil when ctx ends.
func (g *Group) checkFresh(ctx context.Context) error {
	for n := 0; g.o.StartLast && g.o.Source.Delay == 0; n++ {
		fresh, err := g.freshPartitions(ctx)
		if err == nil {
			g.fresh.Store(int64(fresh))
			return nil
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the caller ended the run; what failed by that is no error
		}
		if broker.Permanent(err) {
			return err
		}
		g.o.Health.Failed(err)
		g.o.Log.Warn("could not find out whether the group is new, trying again", "error", err)
		wait.For(ctx, wait.Backoff(n, 250*time.Millisecond, 5*time.Second))
	}
	return nil
}

// freshPartitions is how many partitions the topic has; 0: the group has committed something.
func (g *Group) freshPartitions(ctx context.Context) (int, error) {
	committed, err := g.o.Client.CommittedOffsets(ctx, g.o.ID, g.topic())
	if err != nil || len(committed) > 0 {
		return 0, err
	}
	topics := []string{g.topic()}
	layout, err := broker.RequireTopics(ctx, g.o.Connection, topics, topics)
	return len(layout[g.topic()].Partitions), err
}

func (g *Group) joinFailed(err error) {
	g.o.Health.Failed(err)
	if errors.Is(err, kafka.RebalanceInProgress) {
		g.o.Log.Debug("the group rebalances, joining again")
		return
	}
	g.o.Log.Warn("could not join the group, trying again", "error", err)
}

// start works a generation's partitions. The returned channel closes when they have been
// drained and committed.
func (g *Group) start(ctx context.Context, gen *kafka.Generation) chan struct{} {
	drained := make(chan struct{})
	a := newAssignment(g, gen)
	gen.Start(func(genCtx context.Context) {
		rejoin := a.run(ctx.Done(), genCtx.Done()) //nolint:contextcheck // the last commits come after both contexts
		close(drained)
		if !rejoin {
			<-genCtx.Done() // to return would end the generation
		}
	})
	return drained
}
