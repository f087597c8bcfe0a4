package consumer_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A batch that unpacks to too much stops its partition, which the status names with the remedy, and no other. With a larger bound
// all of its jobs are worked.
func TestABatchThatUnpacksToTooMuch(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.Dialer(w.net.DialContext), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.ProducerBatchMaxBytes(32<<20)) // zstd closes a channel of the bubble outside of it
		w.ok(err)
		put := func(partition int32, values ...string) {
			var all []*kgo.Record
			for _, v := range values {
				all = append(all, &kgo.Record{Topic: "jobs", Partition: partition, Value: []byte(v)})
			}
			w.ok(cl.ProduceSync(w.t.Context(), all...).FirstErr())
		}
		large := strings.Repeat(" ", 3_000_000)
		put(0, "before")
		put(0, large, large, large)
		put(0, "behind")
		put(1, "other")
		cl.Close()

		o := w.options()
		o.MaxBatchBytes, o.MaxJobBytes = 8<<20, 4<<20
		n := w.start(o, settled)
		w.waitFor("jobs", 0, 1)
		w.waitFor("jobs", 1, 1)
		var fetched atomic.Int64
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "jobs", Partitions: []int32{0}, Err: kerr.UnknownServerError, Count: -1, When: func(kmsg.Request) bool {
			fetched.Add(1)
			return false
		}})
		time.Sleep(time.Minute)
		fault := n.c.Status().Ready()
		for _, want := range []string{"partition 0", "offsets 1 to 3", "kafka.max_batch_bytes of 8388608"} {
			if fault == nil || !strings.Contains(fault.Error(), want) {
				t.Errorf("got %v, want %q in it", fault, want)
			}
		}
		if got := fetched.Load(); got == 0 || got > 30 {
			t.Errorf("got %d fetches of the partition in a minute, want a few", got)
		}
		w.ok(n.end())

		o.MaxBatchBytes = 16 << 20
		n = w.start(o, settled)
		w.waitFor("jobs", 0, 5)
		w.ok(n.end())
	})
}
