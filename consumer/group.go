package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"dispatcher/consumer/internal/broker"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/wait"

	"github.com/segmentio/kafka-go"
)

// watchInterval is how often a member looks for new partitions of its topic.
const watchInterval = 30 * time.Second

// group is this node's membership in the group of one topic. There is a group
// a topic, since in one for several a missing topic leaves all of them without
// partitions.
type group struct {
	*feed

	c  *Consumer
	id string

	// refuse ends the consumer's run, for all groups, with an error of it.
	refuse func(error)

	// fresh: the group had committed nothing when this node came, and this
	// node hasn't either. Only StartLast asks.
	fresh atomic.Bool

	had atomic.Int64 // partitions, by the last assignment; for the log

	topicID topicname.ID // as first seen; the watcher's of the assignment
}

func (g *group) log() *slog.Logger { return g.c.opts.Logger.With("group", g.id) }

func (g *group) config() kafka.ConsumerGroupConfig {
	o := &g.c.opts
	return kafka.ConsumerGroupConfig{
		ID: g.id, Brokers: o.Brokers, Dialer: g.c.client.Dialer, Topics: []string{g.topic},
		GroupBalancers:    []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
		HeartbeatInterval: o.Heartbeat, SessionTimeout: o.Session, RebalanceTimeout: o.Session,
		JoinGroupBackoff: o.JoinBackoff, Timeout: 5 * time.Second, StartOffset: kafka.FirstOffset,
		WatchPartitionChanges: true, PartitionWatchInterval: watchInterval,
	}
}

// run holds the membership until ctx ends or the cluster refuses it for good.
//
// When ctx ends, the generation's function drains and commits first, while
// heartbeats go on, and only then the group is left: closing it first would
// stop the heartbeats, and rejoining would disturb the others.
func (g *group) run(ctx context.Context) error {
	if err := g.learn(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	g.awaitGhost(ctx)
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
			if !joined && broker.Hopeless(err) {
				_ = cg.Close()
				return err
			}
			g.missed(err)
			continue
		}
		joined = true
		drained = g.start(ctx, gen)
	}
	<-drained
	return ignoreClosed(cg.Close())
}

// learn finds out whether the group is new, for [StartLast]. A tier is read from
// its beginning: what is there was put there to be sent. It has to be known
// before joining: in the first generation another member may commit earlier
// than this one asks. It returns nil when ctx ends.
func (g *group) learn(ctx context.Context) error {
	for n := 0; g.c.opts.StartAt == StartLast && g.tier == 0; n++ {
		fresh, err := g.isNew(ctx)
		if err == nil {
			g.fresh.Store(fresh)
			return nil
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the caller ended the run; what failed by that is no error
		}
		if broker.Hopeless(err) {
			return err
		}
		g.c.state.failed(err)
		g.log().Warn("could not ask what the group has committed, trying again", "error", err)
		wait.For(ctx, wait.Backoff(n, 250*time.Millisecond, 5*time.Second))
	}
	return nil
}

// isNew tells whether the group has committed nothing in any partition.
func (g *group) isNew(ctx context.Context) (bool, error) {
	all, err := g.c.client.CommittedIn(ctx, g.id, g.topic)
	return err == nil && len(all) == 0, err
}

func ignoreClosed(err error) error {
	if errors.Is(err, kafka.ErrGroupClosed) {
		return nil
	}
	return err
}

func (g *group) missed(err error) {
	g.c.state.failed(err)
	if errors.Is(err, kafka.RebalanceInProgress) {
		g.log().Debug("joining again, the group changes")
		return
	}
	g.log().Warn("could not join the group, trying again", "error", err)
}

// start works a generation's partitions. The returned channel closes when they
// have been drained and committed.
func (g *group) start(ctx context.Context, gen *kafka.Generation) chan struct{} {
	drained := make(chan struct{})
	a := newAssignment(g, gen)
	gen.Start(func(genCtx context.Context) {
		fenced := a.run(ctx.Done(), genCtx.Done()) //nolint:contextcheck // the last commits come after both contexts
		close(drained)
		if !fenced {
			// To return is to end the generation, and to join again.
			<-genCtx.Done()
		}
		a.awaitTopic(ctx)
	})
	return drained
}
