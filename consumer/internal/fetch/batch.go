package fetch

import (
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/schedule"
	"dispatcher/job"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// batchMaker turns one partition of an answer into deliveries. A batch takes one
// allocation each for the deliveries, the bytes and the headers, so that a job costs
// little more than its id.
type batchMaker struct {
	p      *schedule.Partition
	limits job.Limits
	unpack *broker.Unpacker
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
	if len(records) == 0 {
		return
	}
	bytes, headers := 0, 0
	for _, r := range records {
		bytes += len(r.Key) + len(r.Value)
		headers += len(r.Headers)
		for i := range r.Headers {
			bytes += len(r.Headers[i].Value)
		}
	}
	blk := block{bytes: make([]byte, 0, bytes), headers: make([]job.Header, 0, headers)}
	b.Jobs = make([]schedule.Delivery, len(records))
	now := time.Now()
	for i, r := range records {
		rec := blk.record(r)
		rec.Topic, rec.Partition = m.p.Source().Topic, m.p.ID()
		b.Bytes += m.decode(&b.Jobs[i], rec, now)
	}
}

// block holds the bytes and headers of one batch.
type block struct {
	bytes   []byte
	headers []job.Header
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
