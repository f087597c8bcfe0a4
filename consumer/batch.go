package consumer

import (
	"hash/maphash"
	"time"

	"dispatcher/consumer/internal/broker"

	"dispatcher/job"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// batchMaker turns what a fetch brought of one partition into deliveries. Per
// batch it allocates one block each for the deliveries, the bytes and the
// headers, so that a job costs little more than its id.
type batchMaker struct {
	p        *partition
	maxBytes int // largest value of a job
	order    Order
	seed     maphash.Seed
	unpack   kgo.Decompressor
}

// make reads what committed transactions and plain producers have written,
// from offset at on. Aborted records and markers are passed.
func (m *batchMaker) make(res *kmsg.FetchResponseTopicPartition, at int64) (*fetchedBatch, error) {
	records, next, err := broker.CommittedRecords(res, at, m.unpack)
	if err != nil {
		return nil, err
	}
	b := &fetchedBatch{next: next, stable: res.LastStableOffset}
	b.gap = len(records) > 0 && records[0].Offset > at
	m.build(b, records)
	return b, nil
}

// build copies the records out of the answer and decodes them.
func (m *batchMaker) build(b *fetchedBatch, records []*kgo.Record) {
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
	b.jobs = make([]Delivery, len(records))
	now := time.Now()
	for i, r := range records {
		rec := blk.record(r)
		rec.Topic, rec.Partition = m.p.topic, m.p.id
		m.deliver(&b.jobs[i], rec, now)
		b.bytes += b.jobs[i].size
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

// copy keeps the difference between none and empty.
func (k *block) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	from := len(k.bytes)
	k.bytes = append(k.bytes, b...)
	return k.bytes[from:len(k.bytes):len(k.bytes)]
}
