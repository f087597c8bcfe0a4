package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"dispatcher/consumer/internal/topicname"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrNoTopicIDs says that the broker is older than Kafka 2.8.
var ErrNoTopicIDs = errors.New("the broker knows no topic ids")

// metadataVersion is the first version with topic ids. kafka-go ends at version 8.
const metadataVersion = 10

// TopicState is what a broker knows about one topic.
type TopicState struct {
	ID         topicname.ID
	Partitions int            // their number
	Leaders    map[int]string // address of each partition's leader; partitions without a leader are left out
}

// Describer asks the brokers of a cluster about topics, one broker at a time. It belongs to
// one goroutine.
type Describer struct {
	Client *Client
	next   int // index of the broker to ask first
}

// Describe asks for a topic, and does not create it. Its error may be
// kafka.UnknownTopicOrPartition, or [ErrNoTopicIDs] beside the state that an old broker
// knows. If a broker does not answer, the next broker is asked, also by the next call.
func (d *Describer) Describe(ctx context.Context, topic string) (TopicState, error) {
	var faults []error
	brokers := d.Client.conn.Brokers
	for range brokers {
		var s TopicState
		err := d.Client.Request(ctx, brokers[d.next], topicRequest(topic), metadataVersion, func(res kmsg.Response) (err error) {
			s, err = readTopic(res)
			return err
		})
		if Answered(err) {
			return s, err
		}
		d.next = (d.next + 1) % len(brokers)
		if faults = append(faults, err); ctx.Err() != nil {
			break
		}
	}
	return TopicState{}, fmt.Errorf("describe topic %s: %w", topic, errors.Join(faults...))
}

// topicRequest requests one topic's metadata, without creating the topic.
func topicRequest(topic string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	return req
}

func readTopic(answer kmsg.Response) (TopicState, error) {
	res, ok := answer.(*kmsg.MetadataResponse)
	if !ok || len(res.Topics) != 1 {
		return TopicState{}, errors.New("metadata: the answer does not hold exactly one topic")
	}
	t := &res.Topics[0]
	if t.ErrorCode != 0 {
		return TopicState{}, kafka.Error(t.ErrorCode)
	}
	brokers := make(map[int32]string, len(res.Brokers))
	for _, b := range res.Brokers {
		brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	s := TopicState{ID: t.TopicID, Partitions: len(t.Partitions), Leaders: make(map[int]string, len(t.Partitions))}
	for _, p := range t.Partitions {
		if addr, known := brokers[p.Leader]; known {
			s.Leaders[int(p.Partition)] = addr
		}
	}
	if s.ID == (topicname.ID{}) {
		return s, ErrNoTopicIDs
	}
	return s, nil
}
