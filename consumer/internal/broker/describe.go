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

// ErrNoTopicIDs says that the broker is from before Kafka 2.8.
var ErrNoTopicIDs = errors.New("the broker knows no ids of topics")

// metadataVersion is the first one with ids; kafka-go ends at 8, so kmsg says it.
const metadataVersion = 10

// TopicState is what a cluster says of one topic.
type TopicState struct {
	ID      topicname.ID
	Leaders map[int]string // where each partition's leader listens; a partition that has none is left out
}

// Describer asks one broker of a cluster about topics. It belongs to one goroutine.
type Describer struct {
	Client *Client
	next   int // which broker to begin with: the one before did not answer
}

// Describe asks for a topic, and does not create it. Its error may be
// kafka.UnknownTopicOrPartition, or errNoTopicIDs beside all that an old broker
// knows; after any other one the next call begins with another broker.
func (d *Describer) Describe(ctx context.Context, topic string) (TopicState, error) {
	var faults []error
	for range d.Client.brokers {
		var s TopicState
		err := d.Client.Request(ctx, d.Client.brokers[d.next], askTopic(topic), metadataVersion, func(res kmsg.Response) (err error) {
			s, err = readTopic(res)
			return err
		})
		if Answered(err) {
			return s, err
		}
		d.next = (d.next + 1) % len(d.Client.brokers)
		if faults = append(faults, err); ctx.Err() != nil {
			break
		}
	}
	return TopicState{}, fmt.Errorf("ask about topic %s: %w", topic, errors.Join(faults...))
}

// askTopic is a request for one topic's metadata, which does not create it.
func askTopic(topic string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	return req
}

func readTopic(answer kmsg.Response) (TopicState, error) {
	res, ok := answer.(*kmsg.MetadataResponse)
	if !ok || len(res.Topics) != 1 {
		return TopicState{}, errors.New("the answer is not about one topic")
	}
	t := &res.Topics[0]
	if t.ErrorCode != 0 {
		return TopicState{}, kafka.Error(t.ErrorCode)
	}
	brokers := make(map[int32]string, len(res.Brokers))
	for _, b := range res.Brokers {
		brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	s := TopicState{ID: t.TopicID, Leaders: make(map[int]string, len(t.Partitions))}
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
