package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// This file has what nodes and the commands for dead letters ask of a log.

// fetchCommitted asks for records from an offset on, limit bytes at most, and
// waits fetchWait for the first. With a partition's own error comes what the
// broker says beside it.
func fetchCommitted(ctx context.Context, cl *client, topic string, partition int, at int64, limit int32) (*fetch.ResponsePartition, error) {
	msg, err := cl.transport.RoundTrip(ctx, cl.Addr, &fetch.Request{
		ReplicaID: -1, SessionEpoch: -1, IsolationLevel: readCommitted,
		MaxWaitTime: int32(fetchWait / time.Millisecond), MinBytes: 1, MaxBytes: limit,
		Topics: []fetch.RequestTopic{{Topic: topic, Partitions: []fetch.RequestPartition{{
			Partition: int32(partition), CurrentLeaderEpoch: -1, LogStartOffset: -1, FetchOffset: at, PartitionMaxBytes: limit,
		}}}},
	})
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	res, ok := msg.(*fetch.Response)
	switch {
	case ok && res.ErrorCode != 0:
		return nil, fmt.Errorf("fetch: %w", kafka.Error(res.ErrorCode))
	case !ok || len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1:
		return nil, errors.New("fetch: the answer does not hold the partition that was asked for")
	}
	part := &res.Topics[0].Partitions[0]
	if part.ErrorCode != 0 {
		return part, fmt.Errorf("fetch: %w", kafka.Error(part.ErrorCode))
	}
	return part, nil
}

// committedIn is what a group has committed in the partitions of a topic; those
// where it has nothing are left out.
func (c *Consumer) committedIn(ctx context.Context, group, topic string) (map[int]int64, error) {
	res, err := c.client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group}) // no topics: all
	if err == nil {
		err = res.Error
	}
	if errors.Is(err, kafka.GroupIdNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("fetch offsets: %w", err)
	}
	all := make(map[int]int64)
	for _, p := range res.Topics[topic] {
		if p.Error != nil {
			return nil, fmt.Errorf("fetch offset of partition %d: %w", p.Partition, p.Error)
		}
		if p.CommittedOffset >= 0 {
			all[p.Partition] = p.CommittedOffset
		}
	}
	return all, nil
}

// logEnds are the first offset of a partition, and the one behind its last: of all
// records, or of those that are settled among transactions.
func logEnds(ctx context.Context, cl *client, topic string, id int, level kafka.IsolationLevel) (first, last int64, err error) {
	logs, err := listEnds(ctx, cl, topic, []int{id}, level)
	if err != nil {
		return 0, 0, err
	}
	for _, l := range logs {
		if l.Partition == id {
			return l.FirstOffset, l.LastOffset, l.Error
		}
	}
	return 0, 0, errors.New("list offsets: the partition is not in the answer")
}

// listEnds asks for that of several partitions; each has an error of its own.
func listEnds(ctx context.Context, cl *client, topic string, ids []int, level kafka.IsolationLevel) ([]kafka.PartitionOffsets, error) {
	ask := make([]kafka.OffsetRequest, 0, 2*len(ids))
	for _, id := range ids {
		ask = append(ask, kafka.FirstOffsetOf(id), kafka.LastOffsetOf(id))
	}
	res, err := cl.ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{topic: ask}, IsolationLevel: level,
	})
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	return res.Topics[topic], nil
}
