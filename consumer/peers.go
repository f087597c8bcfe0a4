package consumer

import (
	"context"
	"fmt"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/schedule"

	"github.com/segmentio/kafka-go"
)

// PeerProgress is the progress of this node's groups in the partitions of other members.
type PeerProgress struct {
	Committed map[TopicPartition]int64 // offsets
	Lag       int64                    // records there that are not complete; those of retry topics wait, and don't count
	Others    bool                     // a group has another member, or a partition that is not this node's
}

// TopicPartition is a partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int
}

// Moved tells whether the others have completed jobs since before.
func (p PeerProgress) Moved(before PeerProgress) bool {
	for at, offset := range p.Committed {
		if then, ok := before.Committed[at]; ok && offset > then {
			return true
		}
	}
	return false
}

// Idle tells whether there are others, and all their jobs are complete or wait in retry topics.
func (p PeerProgress) Idle() bool { return p.Others && p.Lag == 0 }

// PeerProgress asks the brokers, with two requests a group, and two more to each broker that leads its partitions.
func (c *Consumer) PeerProgress(ctx context.Context) (PeerProgress, error) {
	mine := c.scheduler.Places()
	e := PeerProgress{Committed: make(map[TopicPartition]int64)}
	for _, src := range c.sources {
		if err := c.addPeers(ctx, src, mine[src.Topic], &e); err != nil {
			return PeerProgress{}, fmt.Errorf("topic %s: %w", src.Topic, err)
		}
	}
	return e, nil
}

// addPeers adds the progress in one topic.
func (c *Consumer) addPeers(ctx context.Context, src *schedule.Source, mine map[int]bool, e *PeerProgress) error {
	topic := src.Topic
	group := c.opts.Group + "." + topic
	layout, err := broker.RequireTopics(ctx, &c.opts.Connection, []string{topic}, []string{topic})
	if err != nil {
		return err
	}
	var theirs []int
	for _, p := range layout[topic].Partitions {
		if !mine[p.ID] {
			theirs = append(theirs, p.ID)
		}
	}
	if len(theirs) == 0 {
		members, err := c.client.Members(ctx, group)
		e.Others = e.Others || len(members) > 1
		return err
	}
	e.Others = true
	committed, err := c.client.CommittedOffsets(ctx, group, topic)
	if err != nil {
		return err
	}
	logs, err := broker.LogRanges(ctx, c.client, topic, theirs, kafka.ReadCommitted)
	if err != nil {
		return err
	}
	for _, l := range logs {
		if l.Error != nil {
			continue // the partition has no leader, so no job in it is completed
		}
		offset, ok := committed[l.Partition]
		if !ok {
			offset = l.FirstOffset
		}
		e.Committed[TopicPartition{topic, l.Partition}] = offset
		if src.Delay == 0 {
			e.Lag += max(l.LastOffset-offset, 0)
		}
	}
	return nil
}
