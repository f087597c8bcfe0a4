package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file has what nodes and the commands for dead letters ask of a log.

// FetchVersion is the last one that names topics and is not in the newer coding
// of sizes; Kafka 4 still speaks it.
const FetchVersion = 11

const (
	// FetchWait bounds a long poll, and with it how long a partition whose records
	// have all been read may have to wait for its place in one.
	FetchWait = 250 * time.Millisecond
	// FetchBytes of a partition are plenty at throttled rates. A single batch that
	// is larger comes whole all the same; where a broker cuts it, the limit grows.
	FetchBytes = 256 << 10
	// MaxFetchBytes is the most that is asked for.
	MaxFetchBytes = 128 << 20

	readCommitted = 1
)

// CommittedRecords reads a partition's part of an answer, from offset at on, and
// says where the next fetch begins. The records last as long as the answer.
func CommittedRecords(res *kmsg.FetchResponseTopicPartition, at int64, unpack kgo.Decompressor) ([]*kgo.Record, int64, error) {
	part, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: at, IsolationLevel: kgo.ReadCommitted(), Partition: res.Partition,
	}, res, unpack, nil)
	if part.Err != nil && next == at {
		return nil, at, fmt.Errorf("read records from offset %d: %w", at, part.Err)
	}
	return part.Records, next, nil // what can't be read is met again at the next fetch
}

// NewFetch is a request for committed records of one topic. A broker waits for
// the first of them, and answers as soon as any partition has some.
func NewFetch(topic string, wait time.Duration, most int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.SessionEpoch, req.IsolationLevel = -1, readCommitted
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait/time.Millisecond), 1, most
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	req.Topics = append(req.Topics, t)
	return req
}

// AddToFetch adds a partition to such a request, with the next offset and the
// most bytes of it.
func AddToFetch(req *kmsg.FetchRequest, id int, at int64, most int32) {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(id), at, most
	p.CurrentLeaderEpoch, p.LogStartOffset = -1, -1
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
}

// FetchedPartitions is what a broker says of a topic's partitions.
func FetchedPartitions(res kmsg.Response) ([]kmsg.FetchResponseTopicPartition, error) {
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

// FetchPartition asks for records of one partition from an offset on, limit bytes
// at most, and waits fetchWait for the first. What it gives to use lasts no longer
// than that call.
func FetchPartition(ctx context.Context, cl *Client, topic string, partition int, at int64, limit int32, use func(*kmsg.FetchResponseTopicPartition) error) error {
	addr, err := leaderOf(ctx, cl, topic, partition)
	if err != nil {
		return err
	}
	req := NewFetch(topic, FetchWait, limit)
	AddToFetch(req, partition, at, limit)
	return cl.Request(ctx, addr, req, FetchVersion, func(res kmsg.Response) error {
		parts, err := FetchedPartitions(res)
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
func leaderOf(ctx context.Context, cl *Client, topic string, partition int) (string, error) {
	leaders, err := leadersOf(ctx, cl, topic)
	if err != nil {
		return "", err
	}
	addr, known := leaders[partition]
	if !known {
		return "", fmt.Errorf("fetch: %w", kafka.LeaderNotAvailable)
	}
	return addr, nil
}

// leadersOf is likewise where all of a topic's leaders listen.
func leadersOf(ctx context.Context, cl *Client, topic string) (map[int]string, error) {
	res, err := cl.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return nil, fmt.Errorf("ask for the leaders: %w", err)
	}
	leaders := make(map[int]string)
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if t.Name == topic && p.Leader.Host != "" {
				leaders[p.ID] = net.JoinHostPort(p.Leader.Host, strconv.Itoa(p.Leader.Port))
			}
		}
	}
	return leaders, nil
}

// LogRange are the first offset of a partition, and the one behind its last: of all
// records, or of those that are settled among transactions.
func LogRange(ctx context.Context, cl *Client, topic string, id int, level kafka.IsolationLevel) (first, last int64, err error) {
	logs, err := LogRanges(ctx, cl, topic, []int{id}, level)
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

// LogRanges asks for that of several partitions; each has an error of its own.
// kafka-go would send a request of its own, on a connection of its own, for each
// end of each partition.
func LogRanges(ctx context.Context, cl *Client, topic string, ids []int, level kafka.IsolationLevel) ([]kafka.PartitionOffsets, error) {
	leaders, err := leadersOf(ctx, cl, topic)
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	all := make([]kafka.PartitionOffsets, len(ids))
	led := make(map[string][]*kafka.PartitionOffsets)
	for i, id := range ids {
		all[i] = kafka.PartitionOffsets{Partition: id}
		if addr, known := leaders[id]; known {
			led[addr] = append(led[addr], &all[i])
		} else {
			all[i].Error = kafka.LeaderNotAvailable
		}
	}
	var brokers sync.WaitGroup
	for addr, some := range led {
		brokers.Go(func() { endsFrom(ctx, cl, addr, topic, some, level) })
	}
	brokers.Wait()
	return all, nil
}

// endsFrom asks one broker for the ends of partitions that it leads. A request
// can't ask for two offsets of one partition.
func endsFrom(ctx context.Context, cl *Client, addr, topic string, some []*kafka.PartitionOffsets, level kafka.IsolationLevel) {
	for _, end := range []int64{kafka.FirstOffset, kafka.LastOffset} {
		err := cl.Request(ctx, addr, askEnds(topic, some, end, level), listOffsetsVersion, func(res kmsg.Response) error {
			return readEnds(res, some, end)
		})
		if err != nil {
			for _, p := range some {
				p.Error = fmt.Errorf("list offsets: %w", err)
			}
			return
		}
	}
}

// listOffsetsVersion is the last one in the older coding of sizes.
const listOffsetsVersion = 5

func askEnds(topic string, some []*kafka.PartitionOffsets, end int64, level kafka.IsolationLevel) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel = int8(level)
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, p := range some {
		q := kmsg.NewListOffsetsRequestTopicPartition()
		q.Partition, q.Timestamp, q.CurrentLeaderEpoch = int32(p.Partition), end, -1
		t.Partitions = append(t.Partitions, q)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func readEnds(answer kmsg.Response, some []*kafka.PartitionOffsets, end int64) error {
	res, ok := answer.(*kmsg.ListOffsetsResponse)
	if !ok || len(res.Topics) != 1 {
		return errors.New("the answer is not about one topic")
	}
	got := make(map[int]*kmsg.ListOffsetsResponseTopicPartition, len(some))
	for i := range res.Topics[0].Partitions {
		p := &res.Topics[0].Partitions[i]
		got[int(p.Partition)] = p
	}
	for _, p := range some {
		switch q := got[p.Partition]; {
		case q == nil:
			p.Error = errors.New("list offsets: the partition is not in the answer")
		case q.ErrorCode != 0:
			p.Error = kafka.Error(q.ErrorCode)
		case end == kafka.FirstOffset:
			p.FirstOffset = q.Offset
		default:
			p.LastOffset = q.Offset
		}
	}
	return nil
}
