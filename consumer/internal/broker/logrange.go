package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leadersOf returns the address of each partition's leader, from kafka-go's metadata.
// Partitions without a leader are left out.
func leadersOf(ctx context.Context, cl *Client, topic string) (map[int]string, error) {
	res, err := cl.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return nil, fmt.Errorf("request the leaders of topic %s: %w", topic, err)
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

// LogRange returns the first offset of a partition's log and the offset behind its last
// record. With kafka.ReadCommitted, open transactions are behind the end.
func LogRange(ctx context.Context, cl *Client, topic string, id int, level kafka.IsolationLevel) (first, last int64, err error) {
	logs, err := LogRanges(ctx, cl, topic, []int{id}, level)
	if err != nil {
		return 0, 0, err
	}
	return logs[0].FirstOffset, logs[0].LastOffset, logs[0].Error
}

// LogRanges does so for several partitions, in their order; each result has its own error. It
// sends two requests to each broker; kafka-go would send two for each partition, each on its
// own connection. The partitions of a broker that does not answer get an error within
// rangeTimeout.
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
		brokers.Go(func() { rangesFrom(ctx, cl, addr, topic, some, level) })
	}
	brokers.Wait()
	return all, nil
}

// rangeTimeout is the time to connect to a broker and for both of its answers.
const rangeTimeout = 2 * CallTimeout

// rangesFrom asks one broker for the ranges of partitions that it leads. A request can't ask
// for two offsets of one partition, so it sends two requests.
func rangesFrom(ctx context.Context, cl *Client, addr, topic string, some []*kafka.PartitionOffsets, level kafka.IsolationLevel) {
	ctx, cancel := context.WithTimeout(ctx, rangeTimeout)
	defer cancel()
	for _, end := range []int64{kafka.FirstOffset, kafka.LastOffset} {
		err := cl.Request(ctx, addr, listOffsetsRequest(topic, some, end, level), listOffsetsVersion, func(res kmsg.Response) error {
			return readOffsets(res, some, end)
		})
		if err != nil {
			for _, p := range some {
				p.Error = fmt.Errorf("list offsets: %w", err)
			}
			return
		}
	}
}

// listOffsetsVersion is the last version that is not flexible.
const listOffsetsVersion = 5

func listOffsetsRequest(topic string, some []*kafka.PartitionOffsets, end int64, level kafka.IsolationLevel) *kmsg.ListOffsetsRequest {
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

func readOffsets(answer kmsg.Response, some []*kafka.PartitionOffsets, end int64) error {
	res, ok := answer.(*kmsg.ListOffsetsResponse)
	if !ok || len(res.Topics) != 1 {
		return errors.New("the answer does not hold exactly one topic")
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
