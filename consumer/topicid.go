package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicID names a topic for as long as it lives: one that is deleted and made
// again has another. Zero: not known.
type topicID [16]byte

// errNoTopicIDs: a broker from before Kafka 2.8.
var errNoTopicIDs = errors.New("the broker knows no ids of topics")

// metadataVersion is the first one with ids; kafka-go ends at 8, so kmsg says it.
const metadataVersion = 10

// topicState is what a cluster says of one topic.
type topicState struct {
	id      topicID
	leaders map[int]string // where each partition's leader listens; a partition that has none is left out
}

// describer asks one broker of a cluster about topics. It belongs to one goroutine.
type describer struct {
	client *client
	from   int // which broker to begin with: the one before did not answer
}

// describe asks for a topic, and does not create it. Its error may be
// kafka.UnknownTopicOrPartition, or errNoTopicIDs beside all that an old broker
// knows; after any other one the next call begins with another broker.
func (d *describer) describe(ctx context.Context, topic string) (topicState, error) {
	var faults []error
	for range d.client.brokers {
		var s topicState
		err := d.client.ask(ctx, d.client.brokers[d.from], askTopic(topic), metadataVersion, func(res kmsg.Response) (err error) {
			s, err = readTopic(res)
			return err
		})
		if answeredAboutTopic(err) {
			return s, err
		}
		d.from = (d.from + 1) % len(d.client.brokers)
		if faults = append(faults, err); ctx.Err() != nil {
			break
		}
	}
	return topicState{}, fmt.Errorf("ask about topic %s: %w", topic, errors.Join(faults...))
}

// askTopic is a request for one topic's metadata, which does not create it.
func askTopic(topic string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	return req
}

func readTopic(answer kmsg.Response) (topicState, error) {
	res, ok := answer.(*kmsg.MetadataResponse)
	if !ok || len(res.Topics) != 1 {
		return topicState{}, errors.New("the answer is not about one topic")
	}
	t := &res.Topics[0]
	if t.ErrorCode != 0 {
		return topicState{}, kafka.Error(t.ErrorCode)
	}
	brokers := make(map[int32]string, len(res.Brokers))
	for _, b := range res.Brokers {
		brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	s := topicState{id: t.TopicID, leaders: make(map[int]string, len(t.Partitions))}
	for _, p := range t.Partitions {
		if addr, known := brokers[p.Leader]; known {
			s.leaders[int(p.Partition)] = addr
		}
	}
	if s.id == (topicID{}) {
		return s, errNoTopicIDs
	}
	return s, nil
}
