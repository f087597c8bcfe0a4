package fetch

import (
	"time"

	"dispatcher/consumer/internal/batches"
	"dispatcher/consumer/internal/schedule"
	"dispatcher/job"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// batchMaker turns one partition of an answer into deliveries.
type batchMaker struct {
	p      *schedule.Partition
	limits job.Limits
	unpack *batches.Unpacker
}

// make reads the records of committed transactions and of plain producers, from offset at
// on. It skips aborted records and markers.
func (m *batchMaker) make(res *kmsg.FetchResponseTopicPartition, at int64) (*schedule.Batch, error) {
	records, next, err := m.unpack.CommittedRecords(res, at)
	if err != nil {
		return nil, err
	}
	b := &schedule.Batch{Next: next, Stable: res.LastStableOffset}
	b.Gap = next > at && (len(records) == 0 || records[0].Offset > at)
	m.build(b, records)
	return b, nil
}

// build copies the records out of the answer and decodes them.
func (m *batchMaker) build(b *schedule.Batch, records []*kgo.Record) {
	now := time.Now()
	b.Jobs = make([]*schedule.Delivery, 0, len(records))
	for len(b.Jobs) < len(records) {
		rest := records[len(b.Jobs):]
		blk := newBlock(rest)
		for i := range blk.jobs {
			rec := blk.record(rest[i])
			rec.Topic, rec.Partition = m.p.Source().Topic, m.p.ID()
			b.Bytes += m.decode(&blk.jobs[i], rec, now)
			b.Jobs = append(b.Jobs, &blk.jobs[i])
		}
	}
}

// What a block holds at most, unless its only job is larger.
const (
	blockJobs  = 16
	blockBytes = 4 << 10 // without the deliveries, which take 7 KiB
)

// block holds the deliveries of a few jobs, their bytes and their headers, with one allocation for
// each of the three. So a small job has few allocations of its own. A job keeps its whole block in memory, so blocks are
// small: one that sleeps for a day must not keep a batch.
type block struct {
	jobs    []schedule.Delivery
	bytes   []byte
	headers []job.Header
}

// newBlock makes a block for the first of the records, or more of them.
func newBlock(records []*kgo.Record) block {
	jobs, bytes, headers := 0, 0, 0
	for _, r := range records[:min(len(records), blockJobs)] {
		text := textBytes(r)
		if jobs > 0 && bytes+text+(headers+len(r.Headers))*batches.HeaderBytes > blockBytes {
			break
		}
		jobs, bytes, headers = jobs+1, bytes+text, headers+len(r.Headers)
	}
	return block{jobs: make([]schedule.Delivery, jobs), bytes: make([]byte, 0, bytes), headers: make([]job.Header, 0, headers)}
}

// textBytes is what a block copies of a record.
func textBytes(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Value)
	}
	return n
}

func (k *block) record(r *kgo.Record) job.Record {
	rec := job.Record{Offset: r.Offset, Time: r.Timestamp, Key: k.copy(r.Key), Value: k.copy(r.Value)}
	from := len(k.headers)
	for _, h := range r.Headers {
		k.headers = append(k.headers, job.Header{Key: h.Key, Value: k.copy(h.Value)})
	}
	rec.Headers = k.headers[from:len(k.headers):len(k.headers)]
	return rec
}

// copy keeps nil and empty apart.
func (k *block) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	from := len(k.bytes)
	k.bytes = append(k.bytes, b...)
	return k.bytes[from:len(k.bytes):len(k.bytes)]
}
