package fetch

import (
	"bytes"
	"log/slog"
	"runtime"
	"testing"

	"dispatcher/consumer/internal/batches"
	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/schedule"
	"dispatcher/job"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A job that stays in memory, such as one that sleeps, keeps no more there than itself and a few small neighbours. The bound on
// sleepers counts the job alone. It runs alone, since it reads how large the heap is.
func TestAJobKeepsNoBatchInMemory(t *testing.T) { //nolint:paralleltest // see above
	const most = 16 << 10
	for _, size := range []int{200, 1 << 10, 10 << 10} {
		m, before := newMaker(), heap()
		var kept []*schedule.Delivery
		counted := 0
		for offset := int64(0); offset < offsets.PauseWindow; {
			b := &schedule.Batch{}
			m.build(b, recordsOf(offset, broker.FetchBytes/size, size))
			offset += int64(len(b.Jobs))
			kept = append(kept, b.Jobs[0])
			counted += batches.RecordBytes(&b.Jobs[0].Job.Record)
		}
		if got, want := heap()-before, counted+len(kept)*most; got > want {
			t.Errorf("jobs of %d bytes: got %d bytes in memory for %d of %d jobs, want %d at most", size, got, len(kept), offsets.PauseWindow, want)
		}
		runtime.KeepAlive(kept)
	}
}

// heap is how many bytes are in use.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// newMaker is a maker of batches of a partition.
func newMaker() *batchMaker {
	lane := schedule.NewLane("jobs", 1)
	sched := schedule.New(schedule.Options{Lanes: []*schedule.Lane{lane}, Log: slog.New(slog.DiscardHandler)})
	src := &schedule.Source{Topic: "jobs", JobTopic: "jobs", Lane: lane}
	p := sched.NewAssignment().NewPartition(src, schedule.PartitionOptions{Tracker: offsets.NewTracker(0)})
	return &batchMaker{p: p, limits: job.Limits{MaxBytes: 1 << 20}}
}

// recordsOf are n records from an offset on, each with three headers and a value of so many bytes.
func recordsOf(offset int64, n, size int) (records []*kgo.Record) {
	headers := []kgo.RecordHeader{{Key: job.HeaderIdempotencyKey, Value: []byte("0123456789")}, {Key: job.HeaderCost, Value: []byte("1")}, {Key: "tenant", Value: []byte("acme")}}
	for i := range n {
		records = append(records, &kgo.Record{Offset: offset + int64(i), Key: []byte("key"), Value: bytes.Repeat([]byte{'x'}, size), Headers: headers})
	}
	return records
}
