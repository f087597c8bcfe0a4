package consumer

import (
	"context"
	"fmt"
)

// Elsewhere is how far this node's groups have come in the partitions of others.
type Elsewhere struct {
	Committed map[TopicPartition]int64 // offsets
	Standby   bool                     // in some group this node holds all partitions, and another member none
}

// TopicPartition is a partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int
}

// Could tells whether others could do this node's work: they have done theirs
// since before, or have none and wait for some.
func (e Elsewhere) Could(before Elsewhere) bool {
	if e.Standby {
		return true
	}
	for at, offset := range e.Committed {
		if then, ok := before.Committed[at]; ok && offset > then {
			return true
		}
	}
	return false
}

// Elsewhere asks the brokers; two requests a group.
func (c *Consumer) Elsewhere(ctx context.Context) (Elsewhere, error) {
	mine := c.hub.places()
	e := Elsewhere{Committed: make(map[TopicPartition]int64)}
	for _, f := range c.feeds {
		if err := c.elsewhere(ctx, f.topic, mine, &e); err != nil {
			return Elsewhere{}, fmt.Errorf("topic %s: %w", f.topic, err)
		}
	}
	return e, nil
}

func (c *Consumer) elsewhere(ctx context.Context, topic string, mine map[TopicPartition]bool, e *Elsewhere) error {
	id := c.opts.Group + "." + topic
	all, err := c.committedIn(ctx, id, topic)
	if err != nil {
		return err
	}
	held := false
	for partition, offset := range all {
		at := TopicPartition{topic, partition}
		held = held || mine[at]
		if !mine[at] {
			e.Committed[at] = offset
		}
	}
	if !held || e.Standby {
		return nil
	}
	e.Standby, err = c.hasStandby(ctx, id)
	return err
}

// hasStandby tells whether one member of a group holds all that is held, and
// there is another one.
func (c *Consumer) hasStandby(ctx context.Context, id string) (bool, error) {
	members, err := c.members(ctx, id)
	if err != nil {
		return false, err
	}
	holders := 0
	for i := range members {
		for _, t := range members[i].MemberAssignments.Topics {
			if len(t.Partitions) > 0 {
				holders++
				break
			}
		}
	}
	return holders == 1 && len(members) > 1, nil
}

// places are the partitions that this node works.
func (h *hub) places() map[TopicPartition]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[TopicPartition]bool)
	for a := range h.live {
		for _, p := range a.parts {
			all[TopicPartition{p.topic, p.id}] = true
		}
	}
	return all
}
