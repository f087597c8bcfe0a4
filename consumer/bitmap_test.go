package consumer_test

import (
	"strings"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/job"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// If the record at the committed offset is missing, the completed offsets behind it are
// ignored: the log may be another one.
func TestAHoleAtTheCommittedOffset(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.ok(w.cluster.CreateTopic("compacted", 1, map[string]string{"cleanup.policy": "compact"}))
		for _, key := range []string{"z", "a", "a", "b", "c"} {
			w.produce("compacted", job.Record{Key: []byte(key), Value: []byte(key)})
		}
		w.cluster.Compact()
		w.configure("compacted", "cleanup.policy", "delete") // a compacted source is refused
		w.commit("compacted", 0, 1, "v1;AAEC")               // 1 is open, 2 and 3 are complete
		o := w.options()
		o.Topics = []string{"compacted"}
		n := w.start(o, settled)
		w.waitFor("compacted", 0, 5)
		w.ok(n.end())
		if diff := cmp.Diff([]string{"a", "b", "c"}, n.values()); diff != "" {
			t.Errorf("handed out (-want +got):\n%s", diff)
		}
	})
}

// The record at the committed offset is of an aborted transaction, and the first answer holds
// no other. The completed offsets behind it are ignored too.
func TestAnAbortedRecordAtTheCommittedOffset(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", keyed("", "0"))
		tx := w.transact("jobs", 0, string(noise('x', 500_000))) // larger than a fetch
		w.ok(tx.EndTransaction(w.t.Context(), kgo.TryAbort))
		tx.Close()
		w.produce("jobs", numbered(3, 6)...)
		w.commit("jobs", 0, 1, "v1;AAEC") // 1 is open, 2 and 3 are complete
		n := w.start(w.options(), settled)
		w.waitFor("jobs", 0, 6)
		w.ok(n.end())
		if diff := cmp.Diff([]string{"3", "4", "5"}, n.values()); diff != "" {
			t.Errorf("handed out (-want +got):\n%s", diff)
		}
	})
}

// An answer that begins behind an aborted transaction comes before the jobs of the first one
// were taken. The completed offsets hold: no job is repeated.
func TestAGapBehindTheFirstAnswerKeepsTheBitmap(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		first, second := keysOf(0, 2, 1)[0], keysOf(1, 2, 1)[0]
		w.produce("jobs", keyed(first, "held"))
		w.produce("jobs", keyed(second, "0"), keyed(second, "1"), keyed(second, "2"))
		tx := w.transact("jobs", 1, "aborted")
		w.commit("jobs", 1, 0, "v1;AAEC") // 0 is open, 1 and 2 are complete
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "jobs", Partitions: []int32{1}, Err: kerr.NotLeaderForPartition, Count: -1})
		o := w.options()
		o.Workers = 1
		n := w.start(o, nil)
		held := n.holding(1)
		fault.Remove()
		time.Sleep(3 * time.Second) // the first answer is in the buffer
		w.produce("jobs", keyed(second, "4"))
		w.ok(tx.EndTransaction(w.t.Context(), kgo.TryAbort))
		tx.Close()
		time.Sleep(3 * time.Second) // and the next one
		held[0].Done(consumer.Outcome{})
		go n.settleHeld()
		w.waitFor("jobs", 1, 6)
		w.ok(n.end())
		if got := strings.Join(n.values(), " "); got != "held 0 4" {
			t.Errorf("got %s handed out, want held 0 4", got)
		}
	})
}

// transact writes a record in a transaction that stays open.
func (w *fleet) transact(topic string, partition int32, value string) *kgo.Client {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.TransactionalID("tx"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.Dialer(w.net.DialContext))
	w.ok(err)
	w.ok(cl.BeginTransaction())
	w.ok(cl.ProduceSync(w.t.Context(), &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}).FirstErr())
	return cl
}
