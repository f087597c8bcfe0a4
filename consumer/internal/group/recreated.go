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
	// describeInterval is how often a member asks for its topic's id and leaders.
	describeInterval = time.Second
	// describeGap is the least time between two such requests.
	describeGap = 100 * time.Millisecond
	// leastTries is after how many tries that failed a node that stops gives up setting offsets: it makes one more.
	leastTries = 3
)

// errRecreated: the topic was deleted and created again. The offsets that this member knows
// mean nothing in the new one.
var errRecreated = fmt.Errorf("the topic was deleted and created again: %w", errRemoved)

// watchTopic checks whether the topic is still the one that the member's offsets belong to,
// each second and once more before the last commit. Offsets alone don't tell: as soon as a
// recreated topic has grown beyond them they seem to fit, and the jobs before them would
// never be sent. The same answer holds the leader of each partition, and their number.
func (a *assignment) watchTopic() {
	defer close(a.checked)
	d := &broker.Describer{Client: a.g.o.Client}
	known := sync.OnceFunc(func() { close(a.described) })
	for faults := 0; ; {
		ctx, cancel := context.WithTimeout(a.Context(), broker.CallTimeout)
		same, err := a.describe(ctx, d)
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
		if !a.awaitDescribe(faults) {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), describeInterval)
	defer cancel()
	if same, _ := a.describe(ctx, d); !same {
		a.recreated.Store(true)
	}
}

// awaitDescribe waits for the next request, which describeSoon may bring forward. false: the
// assignment has ended.
func (a *assignment) awaitDescribe(faults int) bool {
	delay := describeInterval
	if faults > 0 {
		delay = wait.Backoff(faults-1, describeGap, describeInterval)
	}
	if !wait.For(a.Context(), describeGap) {
		return false
	}
	t := time.NewTimer(delay - describeGap)
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.soon:
	case <-a.Context().Done():
		return false
	}
	return true
}

// describeSoon has the topic described before its time: a partition may have another leader.
// Any goroutine may call it.
func (a *assignment) describeSoon() {
	select {
	case a.soon <- struct{}{}:
	default:
	}
}

// describe compares the topic's id with the one that the group has seen first. An unknown id
// counts as the same.
func (a *assignment) describe(ctx context.Context, d *broker.Describer) (same bool, err error) {
	now, err := d.Describe(ctx, a.g.topic())
	a.noteGone(err)
	if now.Leaders != nil {
		a.fetch.UseLeaders(now.Leaders)
		a.checkPartitions(now.Partitions)
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

// noteGone notes whether the topic is gone. The assignment goes on all the same: a member that
// joined again would get no partition before the topic exists.
func (a *assignment) noteGone(err error) {
	was, from := a.gone, a.g.fetchOf(health.NoPartition)
	a.gone = errors.Is(err, kafka.UnknownTopicOrPartition)
	switch {
	case a.gone && a.g.o.Health.Fails(from, err, 0):
		a.g.o.Log.Warn("the topic is gone, waiting until it is created again", "topic", a.g.topic())
	case was && !a.gone:
		a.g.o.Health.Works(from)
	}
}

// topicID is that of the topic which the assignment's offsets belong to; zero: it is not
// known.
func (a *assignment) topicID() topicname.ID { return *a.id.Load() }

// resetOffsets gives the group offsets in the new topic, as out_of_range says. They replace
// those of the old topic, and those that a member committed before it noticed. It tries
// until that is done: a member that joined before would begin at an offset that means
// nothing. Where the group has moved on meanwhile, the next assignment notices again.
func (a *assignment) resetOffsets(stopped <-chan struct{}) {
	a.g.fresh.Store(0)
	policy := a.g.o.OutOfRange
	a.g.o.Log.Error("the topic was deleted and created again, the group's offsets belong to the old one", "topic", a.g.topic(), "out_of_range", policy)
	if policy == offsets.RangeStop {
		a.g.o.Refuse(errors.New("the topic was deleted and created again, and out_of_range is stop: see what became of its jobs, then set the group's offsets, or out_of_range"))
		return
	}
	for n := 0; ; n++ {
		err := a.commitReset()
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

func (a *assignment) commitReset() error {
	ctx, cancel := context.WithTimeout(context.Background(), broker.CallTimeout)
	defer cancel()
	ids, err := a.stillThere(ctx)
	if err != nil || len(ids) == 0 {
		return err
	}
	// A new log begins at 0. If this one doesn't, its first fetch notices.
	points := make([]schedule.CommitPoint, len(ids))
	for i, id := range ids {
		points[i].ID = id
	}
	if a.g.o.OutOfRange == offsets.RangeLatest {
		logs, err := broker.LogRanges(ctx, a.g.o.Client, a.g.topic(), ids, kafka.ReadUncommitted)
		if err != nil {
			return err
		}
		for i, l := range logs {
			if l.Error != nil {
				return fmt.Errorf("list offsets of partition %d: %w", l.Partition, l.Error)
			}
			points[i].Low = l.LastOffset
		}
	}
	a.id.Store(&a.newID) // for the commit's metadata
	return a.send(ctx, points, withAttempts)
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
