package consumer_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leaderMetadata is the version in which kafka-go asks for the partitions that a group's leader
// assigns. No other request has it.
const leaderMetadata = 6

// The coordinator may not know yet a new topic, or added partitions, when the group's leader
// assigns them. The jobs of all partitions are handed out all the same.
func TestAStaleAnswerLeavesNoPartitionUnread(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code       int16
		partitions int32
	}{
		"the topic is not known":       {kerr.UnknownTopicOrPartition.Code, 0},
		"half of the partitions known": {0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 4, func(w *fleet) {
				for p := range 4 {
					w.produce("jobs", keyed(keysOf(p, 4, 1)[0], "x"))
				}
				stale := w.staleOnce(c.code, c.partitions)
				n := w.start(w.options(), settled)
				w.until("all jobs are handed out", func() bool { return len(n.values()) == 4 })
				w.ok(n.end())
				if !*stale {
					t.Error("the leader got no stale answer, want one")
				}
			})
		})
	}
}

// staleOnce answers the leader's first request with an error code and so many partitions. It
// returns whether it has.
func (w *fleet) staleOnce(code int16, partitions int32) *bool {
	stale := new(bool)
	w.cluster.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		if *stale || r.GetVersion() != leaderMetadata {
			return nil, nil, false
		}
		*stale = true
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.ErrorCode = new("jobs"), code
		for p := range partitions {
			one := kmsg.NewMetadataResponseTopicPartition()
			one.Partition = p
			topic.Partitions = append(topic.Partitions, one)
		}
		res := r.ResponseKind().(*kmsg.MetadataResponse)
		res.Topics = append(res.Topics, topic)
		return res, nil, true
	})
	return stale
}
