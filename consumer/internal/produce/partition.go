package produce

import (
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kgo"
)

// partitioner chooses the partition that Java clients choose for a record's key. A record
// without a key gets a random partition, so that jobs written in one batch are spread over
// all nodes.
type partitioner struct{ kgo.Partitioner }

func newPartitioner() kgo.Partitioner { return partitioner{kgo.StickyKeyPartitioner(nil)} }

// ForTopic implements [kgo.Partitioner].
func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.Partitioner.ForTopic(topic)}
}

type topicPartitioner struct{ kgo.TopicPartitioner }

// Partition implements [kgo.TopicPartitioner].
func (p topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Key == nil {
		return rand.IntN(n)
	}
	return p.TopicPartitioner.Partition(r, n)
}

// partitionHook stores in each [Request] the partition that kgo has chosen.
type partitionHook struct{}

// OnProduceRecordPartitioned implements [kgo.HookProduceRecordPartitioned].
func (partitionHook) OnProduceRecordPartitioned(record *kgo.Record, _ int32) {
	if a, ok := record.Context.(*attempt); ok {
		a.request.Partition.Store(record.Partition)
	}
}
