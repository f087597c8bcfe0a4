package consumer_test

import (
	"sync/atomic"
	"testing"

	"dispatcher/consumer"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A commit that would be larger than the coordinator accepts is split, and all of it arrives.
func TestALargeCommitIsSplit(t *testing.T) {
	t.Parallel()
	const partitions = 450
	bubble(t, partitions, func(w *fleet) {
		var largest, requests atomic.Int32
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Count: -1, Observe: true, When: func(r kmsg.Request) bool {
			for _, topic := range r.(*kmsg.OffsetCommitRequest).Topics {
				largest.Store(max(largest.Load(), int32(len(topic.Partitions))))
			}
			requests.Add(1)
			return true
		}})
		n := w.start(w.options(), nil)
		w.until("joined", func() bool { return n.c.Status().Joined })
		w.produceEach("jobs", partitions)
		for _, d := range n.holding(256) { // all that may be in flight
			d.Done(consumer.Outcome{})
		}
		for _, d := range n.holding(partitions - 256) {
			d.Done(consumer.Outcome{})
		}
		w.until("all is committed", func() bool {
			for p := range partitions {
				if got, _ := w.committed("jobs", p); got != 1 {
					return false
				}
			}
			return true
		})
		w.ok(n.end())
		if largest.Load() > 200 || largest.Load() < 100 {
			t.Errorf("got %d partitions in the largest of %d commits, want 100 to 200", largest.Load(), requests.Load())
		}
	})
}

// produceEach writes one record to each partition.
func (w *fleet) produceEach(topic string, partitions int32) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.Dialer(w.net.DialContext), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	w.ok(err)
	defer cl.Close()
	records := make([]*kgo.Record, partitions)
	for p := range records {
		records[p] = &kgo.Record{Topic: topic, Partition: int32(p), Value: []byte("x")}
	}
	w.ok(cl.ProduceSync(w.t.Context(), records...).FirstErr())
}
