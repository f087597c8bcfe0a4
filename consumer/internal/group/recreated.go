package group

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/health"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/schedule"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/wait"

	"github.com/segmentio/kafka-go"
)

const (
	// idInterval is how often a member looks whether its topic is still the same.
	idInterval = time.Second
	// lookGap is the least time between two looks.
	lookGap = 100 * time.Millisecond
)

// errRecreated: the topic was deleted and made again. No offset that this member
// knows means anything in it.
var errRecreated = fmt.Errorf("the topic was made anew: %w", errRemoved)

// watchTopic looks whether the topic is still the one that the member's offsets
// belong to, each second and once more before the last commit. By its offsets
// alone a topic that was made anew can't be told: as soon as it has grown beyond
// them they seem to fit, and the jobs before them would never be sent. The same
// answer says who leads each partition.
func (a *assignment) watchTopic() {
	defer close(a.looked)
	d := &broker.Describer{Client: a.g.o.Client}
	known := sync.OnceFunc(func() { close(a.described) })
	for faults := 0; ; {
		ctx, cancel := context.WithTimeout(a.Context(), broker.CallTimeout)
		same, err := a.look(ctx, d)
		cancel()
		if !same {
			a.recreated.Store(true)
			a.End(errRecreated)
			return
		}
		if faults++; broker.Answered(err) {
			faults = 0
			known()
		}
		if !a.awaitLook(faults) {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), idInterval)
	defer cancel()
	if same, _ := a.look(ctx, d); !same {
		a.recreated.Store(true)
	}
}

// awaitLook waits for the time of the next look, be it that somebody asks for it.
// false: the assignment has ended.
func (a *assignment) awaitLook(faults int) bool {
	delay := idInterval
	if faults > 0 {
		delay = wait.Backoff(faults-1, lookGap, idInterval)
	}
	if !wait.For(a.Context(), lookGap) {
		return false
	}
	t := time.NewTimer(delay - lookGap)
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.soon:
	case <-a.Context().Done():
		return false
	}
	return true
}

// lookSoon has the topic looked at before its time: a partition may have another
// leader. Any goroutine may call it.
func (a *assignment) lookSoon() {
	select {
	case a.soon <- struct{}{}:
	default:
	}
}

// look compares the topic's id with the one the group has seen first. What can't
// be found out counts as the same.
func (a *assignment) look(ctx context.Context, d *broker.Describer) (same bool, err error) {
	now, err := d.Describe(ctx, a.g.topic())
	gone := errors.Is(err, kafka.UnknownTopicOrPartition)
	if gone && !a.gone {
		a.g.o.Log.Warn("the topic is gone", "topic", a.g.topic())
	}
	a.gone = gone
	if now.Leaders != nil {
		a.fetch.UseLeaders(now.Leaders)
	}
	if now.ID == (topicname.ID{}) {
		a.g.o.Log.Debug("the topic's id is not known", "topic", a.g.topic(), "error", err)
		return true, err
	}
	if a.g.seenID == (topicname.ID{}) {
		a.g.seenID = now.ID
	}
	a.newID = now.ID
	if now.ID != a.g.seenID {
		return false, nil
	}
	a.id.Store(&now.ID)
	return true, nil
}

// topicID is that of the topic which the assignment's offsets belong to; zero: it
// is not known.
func (a *assignment) topicID() topicname.ID {
	if id := a.id.Load(); id != nil {
		return *id
	}
	return topicname.ID{}
}

// startAgain gives the group offsets in the new topic, as out_of_range says, in
// place of those that were committed in the old one or, since, by a member that
// had not noticed yet. It goes on until it has: to join before would be to work
// from an offset that means nothing. Where the group has moved on meanwhile, the
// next assignment notices the topic again.
func (a *assignment) startAgain(stopped <-chan struct{}) {
	policy := a.g.o.OutOfRange
	a.g.o.Log.Error("the topic was deleted and made anew, what the group had done belongs to the old one", "topic", a.g.topic(), "out_of_range", policy)
	if policy == offsets.RangeStop {
		a.g.o.Refuse(errors.New("the topic was deleted and made anew, and out_of_range is stop: see what became of its jobs, then set the group's offsets, or out_of_range"))
		return
	}
	for n := 0; ; n++ {
		err := a.commitAgain()
		if err == nil {
			a.g.seenID = a.newID
			return
		}
		if errors.Is(err, errRemoved) || n >= leastTries && ended(stopped) {
			a.g.o.Log.Error("could not set the group's offsets in the new topic", "error", err)
			return
		}
		if n == leastTries {
			a.g.o.Log.Warn("could not set the group's offsets in the new topic, trying again", "error", err)
		}
		wait.For(context.Background(), wait.Backoff(n, 20*time.Millisecond, 200*time.Millisecond))
	}
}

// leastTries is how often a node that stops tries all the same.
const leastTries = 3

func (a *assignment) commitAgain() error {
	ctx, cancel := context.WithTimeout(context.Background(), broker.CallTimeout)
	defer cancel()
	ids, err := a.stillThere(ctx)
	if err != nil || len(ids) == 0 {
		return err
	}
	var points []commitPoint
	for _, id := range ids {
		// The log is new: it begins at 0. If it doesn't, that is told when it is read.
		points = append(points, commitPoint{CommitPoint: schedule.CommitPoint{ID: id}})
	}
	a.id.Store(&a.newID) // which the commit says
	if a.g.o.OutOfRange == offsets.RangeLatest {
		if err := a.atEnds(ctx, ids, points); err != nil {
			return err
		}
	}
	return a.send(ctx, points)
}

// stillThere are the assignment's partitions that the new topic has as well.
func (a *assignment) stillThere(ctx context.Context) ([]int, error) {
	topics := []string{a.g.topic()}
	layout, err := broker.RequireTopics(ctx, a.g.o.Connection, topics, topics)
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, p := range a.gen.Assignments[a.g.topic()] {
		if slices.ContainsFunc(layout[a.g.topic()].Partitions, func(q kafka.Partition) bool { return q.ID == p.ID }) {
			ids = append(ids, p.ID)
		}
	}
	return ids, nil
}

// atEnds moves points to the ends of their logs.
func (a *assignment) atEnds(ctx context.Context, ids []int, points []commitPoint) error {
	logs, err := broker.LogRanges(ctx, a.g.o.Client, a.g.topic(), ids, kafka.ReadUncommitted)
	if err != nil {
		return err
	}
	ends := make(map[int]int64, len(logs))
	for _, l := range logs {
		if l.Error != nil {
			return fmt.Errorf("list offsets of partition %d: %w", l.Partition, l.Error)
		}
		ends[l.Partition] = l.LastOffset
	}
	for i := range points {
		points[i].Low = ends[points[i].ID]
	}
	return nil
}

// awaitTopic holds the member back while its topic does not exist. The group
// would be joined over and over: without partitions kafka-go ends a generation
// as soon as it has begun.
func (a *assignment) awaitTopic(ctx context.Context) {
	if !a.gone && len(a.gen.Assignments[a.g.topic()]) > 0 {
		return
	}
	topics := []string{a.g.topic()}
	from := a.g.fetchOf(health.NoPartition)
	defer a.g.o.Health.Works(from)
	for n := 0; ctx.Err() == nil; n++ {
		call, cancel := context.WithTimeout(ctx, broker.CallTimeout)
		_, err := broker.RequireTopics(call, a.g.o.Connection, topics, topics)
		cancel()
		if _, missing := errors.AsType[*broker.MissingTopicError](err); !missing {
			return
		}
		if a.g.o.Health.Fails(from, err, 0) {
			a.g.o.Log.Warn("the topic is gone, waiting until it is made again", "topic", a.g.topic())
		}
		wait.For(ctx, wait.Backoff(n, 250*time.Millisecond, 2*time.Second))
	}
}
