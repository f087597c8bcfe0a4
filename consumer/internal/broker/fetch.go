package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FetchVersion is the last version of Fetch that is not flexible and names topics instead of
// using their ids. Kafka 4 still speaks it.
const FetchVersion = 11

const (
	// FetchWait bounds a long poll. A partition whose records have all been read may have
	// to wait that long before it can join a request.
	FetchWait = 250 * time.Millisecond
	// FetchBytes of a partition are plenty at throttled rates. A broker sends a larger
	// batch whole; where a broker truncates it, the limit grows.
	FetchBytes = 256 << 10
	// MaxFetchBytes is the largest limit.
	MaxFetchBytes = 128 << 20

	readCommitted = 1
)

// NewFetch makes a request for committed records of one topic. The broker answers when any
// partition has records, or after wait.
func NewFetch(topic string, wait time.Duration, maxBytes int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.SessionEpoch, req.IsolationLevel = -1, readCommitted
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait/time.Millisecond), 1, maxBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	req.Topics = append(req.Topics, t)
	return req
}

// AddToFetch adds a partition to a request of [NewFetch], from an offset on.
func AddToFetch(req *kmsg.FetchRequest, id int, at int64, maxBytes int32) {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(id), at, maxBytes
	p.CurrentLeaderEpoch, p.LogStartOffset = -1, -1
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
}

// FetchedPartitions returns the partitions in the answer to a request of [NewFetch].
func FetchedPartitions(res kmsg.Response) ([]kmsg.FetchResponseTopicPartition, error) {
	r, ok := res.(*kmsg.FetchResponse)
	switch {
	case !ok || len(r.Topics) > 1:
		return nil, errors.New("fetch: the answer holds other topics")
	case r.ErrorCode != 0:
		return nil, fmt.Errorf("fetch: %w", kafka.Error(r.ErrorCode))
	case len(r.Topics) == 0:
		return nil, nil
	}
	return r.Topics[0].Partitions, nil
}

// FetchPartition fetches committed records of one partition from an offset on. It waits
// up to [FetchWait] for the first record. The argument of use is valid only during that call.
func FetchPartition(ctx context.Context, cl *Client, topic string, partition int, at int64, maxBytes int32, use func(*kmsg.FetchResponseTopicPartition) error) error {
	leaders, err := leadersOf(ctx, cl, topic)
	if err != nil {
		return err
	}
	addr, known := leaders[partition]
	if !known {
		return fmt.Errorf("fetch: %w", kafka.LeaderNotAvailable)
	}
	req := NewFetch(topic, FetchWait, maxBytes)
	AddToFetch(req, partition, at, maxBytes)
	return cl.Request(ctx, addr, req, FetchVersion, func(res kmsg.Response) error {
		parts, err := FetchedPartitions(res)
		switch {
		case err != nil:
			return err
		case len(parts) != 1 || parts[0].Partition != int32(partition):
			return errors.New("fetch: the answer does not hold the partition")
		case parts[0].ErrorCode != 0:
			return fmt.Errorf("fetch: %w", kafka.Error(parts[0].ErrorCode))
		}
		return use(&parts[0])
	})
}
