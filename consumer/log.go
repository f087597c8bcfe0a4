package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file has what nodes and the commands for dead letters ask of a log.

// fetchVersion is the last one that names topics and is not in the newer coding
// of sizes; Kafka 4 still speaks it.
const fetchVersion = 11

// askRecords is a request for committed records of one topic. A broker waits for
// the first of them, and answers as soon as any partition has some.
func askRecords(topic string, wait time.Duration, most int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.SessionEpoch, req.IsolationLevel = -1, readCommitted
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait/time.Millisecond), 1, most
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	req.Topics = append(req.Topics, t)
	return req
}

// askPartition adds a partition to such a request, with the next offset and the
// most bytes of it.
func askPartition(req *kmsg.FetchRequest, id int, at int64, most int32) {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(id), at, most
	p.CurrentLeaderEpoch, p.LogStartOffset = -1, -1
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
}

// answeredBy is what a broker says of a topic's partitions.
func answeredBy(res kmsg.Response) ([]kmsg.FetchResponseTopicPartition, error) {
	r, ok := res.(*kmsg.FetchResponse)
	switch {
	case !ok || len(r.Topics) > 1:
		return nil, errors.New("fetch: the answer is about other topics")
	case r.ErrorCode != 0:
		return nil, fmt.Errorf("fetch: %w", kafka.Error(r.ErrorCode))
	case len(r.Topics) == 0:
		return nil, nil
	}
	return r.Topics[0].Partitions, nil
}

// fetchCommitted asks for records of one partition from an offset on, limit bytes
// at most, and waits fetchWait for the first. What it gives to use lasts no longer
// than that call.
func fetchCommitted(ctx context.Context, cl *client, topic string, partition int, at int64, limit int32, use func(*kmsg.FetchResponseTopicPartition) error) error {
	addr, err := leaderOf(ctx, cl, topic, partition)
	if err != nil {
		return err
	}
	req := askRecords(topic, fetchWait, limit)
	askPartition(req, partition, at, limit)
	return cl.ask(ctx, addr, req, fetchVersion, func(res kmsg.Response) error {
		parts, err := answeredBy(res)
		switch {
		case err != nil:
			return err
		case len(parts) != 1 || parts[0].Partition != int32(partition):
			return errors.New("fetch: the answer does not hold the partition that was asked for")
		case parts[0].ErrorCode != 0:
			return fmt.Errorf("fetch: %w", kafka.Error(parts[0].ErrorCode))
		}
		return use(&parts[0])
	})
}

// leaderOf is where a partition's leader listens, as far as kafka-go remembers.
func leaderOf(ctx context.Context, cl *client, topic string, partition int) (string, error) {
	res, err := cl.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return "", fmt.Errorf("ask for the leader: %w", err)
	}
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if t.Name == topic && p.ID == partition && p.Leader.Host != "" {
				return net.JoinHostPort(p.Leader.Host, strconv.Itoa(p.Leader.Port)), nil
			}
		}
	}
	return "", fmt.Errorf("fetch: %w", kafka.LeaderNotAvailable)
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
