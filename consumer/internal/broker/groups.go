package broker

import (
	"context"
	"errors"
	"fmt"

	"dispatcher/consumer/internal/offsets"

	"github.com/segmentio/kafka-go"
)

// CommittedOffsets returns the offsets that a group has committed in the partitions of a
// topic. Partitions without one are left out.
func (c *Client) CommittedOffsets(ctx context.Context, group, topic string) (map[int]int64, error) {
	found, fault, err := c.committedOf(ctx, group, topic, nil)
	if err != nil {
		return nil, fmt.Errorf("fetch offsets: %w", err)
	}
	if fault != nil {
		return nil, fault
	}
	all := make(map[int]int64)
	for id, p := range found {
		if p.CommittedOffset >= 0 {
			all[id] = p.CommittedOffset
		}
	}
	return all, nil
}

// Members returns the members of a group.
func (c *Client) Members(ctx context.Context, group string) ([]kafka.DescribeGroupsResponseMember, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	res, err := c.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return nil, fmt.Errorf("describe group: %w", err)
	}
	if len(res.Groups) != 1 {
		return nil, errors.New("describe group: the group is not in the answer")
	}
	if err := res.Groups[0].Error; err != nil {
		return nil, fmt.Errorf("describe group: %w", err)
	}
	return res.Groups[0].Members, nil
}

// Positions returns what a group has committed in partitions, and where their logs begin and
// end. It leaves out partitions with an unknown offset, and then also returns an error about
// one of them.
func (c *Client) Positions(ctx context.Context, group, topic string, ids []int, level kafka.IsolationLevel) (map[int]offsets.Position, error) {
	// First the committed offsets: the end of a log that is read later can only be higher.
	committed, fault, err := c.committedOf(ctx, group, topic, ids)
	if err != nil {
		return nil, fmt.Errorf("fetch offsets of group %s: %w", group, err)
	}
	ends, err := LogRanges(ctx, c, topic, ids, level)
	if err != nil {
		return nil, err
	}
	all := make(map[int]offsets.Position, len(ends))
	for _, l := range ends {
		if l.Error != nil {
			fault = fmt.Errorf("list offsets of partition %d: %w", l.Partition, l.Error)
			continue
		}
		if at, ok := committed[l.Partition]; ok {
			all[l.Partition] = offsets.NewPosition(l.FirstOffset, l.LastOffset, at.CommittedOffset, at.Metadata)
		}
	}
	return all, fault
}

// committedOf returns what a group has committed in partitions; nil: in all of them. It leaves
// out partitions with a fault, and returns one of the faults. A group that does not exist has
// committed nothing.
func (c *Client) committedOf(ctx context.Context, group, topic string, ids []int) (all map[int]kafka.OffsetFetchPartition, fault, err error) {
	req := &kafka.OffsetFetchRequest{GroupID: group} // without topics: all
	if ids != nil {
		req.Topics = map[string][]int{topic: ids}
	}
	res, err := c.OffsetFetch(ctx, req)
	if err == nil {
		err = res.Error
	}
	all = make(map[int]kafka.OffsetFetchPartition, len(ids))
	if errors.Is(err, kafka.GroupIdNotFound) {
		for _, id := range ids {
			all[id] = kafka.OffsetFetchPartition{Partition: id, CommittedOffset: -1}
		}
		return all, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, p := range res.Topics[topic] {
		if p.Error != nil {
			fault = fmt.Errorf("fetch offset of partition %d: %w", p.Partition, p.Error)
			continue
		}
		all[p.Partition] = p
	}
	return all, fault, nil
}
