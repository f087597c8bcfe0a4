package consumer

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answered is what a broker says, behind the number, as another client writes it.
func answered(code int16, id topicID) []byte {
	res := kmsg.NewPtrMetadataResponse()
	res.SetVersion(metadataVersion)
	res.ClusterID = new("a cluster")
	for i := range int32(3) {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = i, "broker", 9092
		if i > 0 {
			b.Rack = new("rack")
		}
		res.Brokers = append(res.Brokers, b)
	}
	topic := kmsg.NewMetadataResponseTopic()
	topic.ErrorCode, topic.Topic, topic.TopicID = code, new("jobs"), id
	topic.Partitions = append(topic.Partitions, kmsg.NewMetadataResponseTopicPartition())
	res.Topics = append(res.Topics, topic)
	return res.AppendTo([]byte{0})
}

func TestAnIDIsReadFromWhatABrokerSays(t *testing.T) {
	t.Parallel()
	want := topicID{1, 2, 15: 16}
	if got, err := decodeTopicID(answered(0, want)); err != nil || got != want {
		t.Errorf("got %v and %v, want %v", got, err, want)
	}
	if _, err := decodeTopicID(answered(3, topicID{})); !errors.Is(err, kafka.UnknownTopicOrPartition) {
		t.Errorf("got %v, want that there is no such topic", err)
	}
}

func TestABrokerCanReadWhatItIsAsked(t *testing.T) {
	t.Parallel()
	b := encodeAskID("me", "jobs", 7)
	if got := int(binary.BigEndian.Uint32(b)); got != len(b)-4 {
		t.Errorf("got %d for the size, want %d", got, len(b)-4)
	}
	const head = 4 + 2 + 2 + 4 + 2 + len("me") + 1
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(metadataVersion)
	if err := req.ReadFrom(b[head:]); err != nil {
		t.Fatal(err)
	}
	if len(req.Topics) != 1 || req.Topics[0].Topic == nil || *req.Topics[0].Topic != "jobs" || req.AllowAutoTopicCreation {
		t.Errorf("got %+v, want one topic that is not created", req)
	}
}

func FuzzDecodeTopicID(f *testing.F) {
	whole := answered(0, topicID{1})
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, answer []byte) {
		id, err := decodeTopicID(answer)
		if err != nil && id != (topicID{}) {
			t.Errorf("got the id %v beside %v", id, err)
		}
	})
}
