package consumer

import (
	"cmp"
	"errors"
	"hash/maphash"
	"io"
	"slices"
	"time"

	"dispatcher/job"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

const (
	deliveryBytes = 512 // stands for what a delivery costs beside its record
	headerBytes   = 40  // stands for what a header costs beside its text
)

// batchMaker turns a fetch's answer into deliveries. It belongs to one
// goroutine. Per batch it allocates one block each for the deliveries, the
// bytes and the headers, so that a job costs little more than its id.
type batchMaker struct {
	p        *partition
	maxBytes int
	order    Order
	seed     maphash.Seed
	raw      []rawRecord // reused
}

// rawRecord is a record whose bytes still lie in the client's pages.
type rawRecord struct {
	offset     int64
	time       time.Time
	key, value protocol.Bytes
	headers    []protocol.Header
}

// make reads what committed transactions and plain producers have written,
// from offset at on. Aborted records and markers are passed.
func (m *batchMaker) make(res *fetch.ResponsePartition, at int64) (*fetchedBatch, error) {
	b := &fetchedBatch{next: at, stable: res.LastStableOffset}
	defer m.release()
	first := int64(-1)
	aborted := newAborted(res.AbortedTransactions)
	for _, batch := range batches(res.RecordSet.Records) {
		keep := aborted.keeps(batch)
		for {
			rec, err := batch.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			if rec.Offset >= b.next && first < 0 {
				first = rec.Offset
			}
			m.collect(rec, keep && rec.Offset >= b.next)
			b.next = max(b.next, rec.Offset+1)
		}
	}
	b.gap = first > at
	return b, m.build(b)
}

func batches(r protocol.RecordReader) []protocol.RecordReader {
	switch r := r.(type) {
	case nil:
		return nil
	case *protocol.RecordStream:
		return r.Records
	default:
		return []protocol.RecordReader{r}
	}
}

func (m *batchMaker) collect(rec *protocol.Record, keep bool) {
	if !keep {
		closeBytes(rec.Key)
		closeBytes(rec.Value)
		return
	}
	m.raw = append(m.raw, rawRecord{rec.Offset, rec.Time, rec.Key, rec.Value, rec.Headers})
}

func closeBytes(b protocol.Bytes) {
	if b != nil {
		_ = b.Close() // returns pages to a pool; it can't fail
	}
}

func (m *batchMaker) release() {
	for i := range m.raw {
		closeBytes(m.raw[i].key)
		closeBytes(m.raw[i].value)
	}
	clear(m.raw)
	m.raw = m.raw[:0]
}

func byteLen(b protocol.Bytes) int {
	if b == nil {
		return 0
	}
	return b.Len()
}

// build copies the records out of the pages and decodes them.
func (m *batchMaker) build(b *fetchedBatch) error {
	bytes, headers := 0, 0
	for i := range m.raw {
		bytes += byteLen(m.raw[i].key) + byteLen(m.raw[i].value)
		headers += len(m.raw[i].headers)
	}
	if len(m.raw) == 0 {
		return nil
	}
	blk := block{bytes: make([]byte, 0, bytes), headers: make([]job.Header, 0, headers)}
	b.jobs = make([]Delivery, len(m.raw))
	now := time.Now()
	for i := range m.raw {
		rec, err := blk.record(&m.raw[i])
		if err != nil {
			return err
		}
		rec.Topic, rec.Partition = m.p.topic, m.p.id
		m.deliver(&b.jobs[i], rec, now)
		b.bytes += b.jobs[i].size
	}
	return nil
}

// recordBytes is about what a delivery holds in memory. Headers count: a
// producer may put a megabyte there as well as into the value.
func recordBytes(rec *job.Record) int {
	size := deliveryBytes + len(rec.Key) + len(rec.Value)
	for i := range rec.Headers {
		size += headerBytes + len(rec.Headers[i].Key) + len(rec.Headers[i].Value)
	}
	return size
}

// block holds the bytes and headers of one batch.
type block struct {
	bytes   []byte
	headers []job.Header
}

func (k *block) record(raw *rawRecord) (job.Record, error) {
	rec := job.Record{Offset: raw.offset, Time: raw.time}
	var err error
	if rec.Key, err = k.copy(raw.key); err != nil {
		return rec, err
	}
	if rec.Value, err = k.copy(raw.value); err != nil {
		return rec, err
	}
	from := len(k.headers)
	for _, h := range raw.headers {
		k.headers = append(k.headers, job.Header{Key: h.Key, Value: h.Value})
	}
	rec.Headers = k.headers[from:len(k.headers):len(k.headers)]
	return rec, nil
}

// copy keeps the difference between none and empty.
func (k *block) copy(b protocol.Bytes) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	from := len(k.bytes)
	to := from + b.Len()
	k.bytes = k.bytes[:to]
	_, err := io.ReadFull(b, k.bytes[from:to])
	return k.bytes[from:to:to], err
}

// abortedSet knows which producers' transactions were aborted, batch by batch.
type abortedSet struct {
	todo   []fetch.ResponseTransaction // by first offset
	active map[int64]struct{}
}

func newAborted(list []fetch.ResponseTransaction) *abortedSet {
	s := &abortedSet{todo: slices.Clone(list)}
	slices.SortFunc(s.todo, func(a, b fetch.ResponseTransaction) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	if len(list) > 0 {
		s.active = make(map[int64]struct{}, len(list))
	}
	return s
}

// keeps tells whether a batch's records are to be worked. It is asked for every
// batch in turn, markers included: a transaction may begin before what was
// fetched, and then its marker is the first that is seen of it.
func (s *abortedSet) keeps(r protocol.RecordReader) bool {
	switch b := r.(type) {
	case *protocol.ControlBatch:
		s.reach(b.BaseOffset)
		delete(s.active, b.ProducerID) // the producer's next transaction is judged anew
		return false
	case *protocol.RecordBatch:
		s.reach(b.BaseOffset)
		_, dropped := s.active[b.ProducerID]
		return !dropped || !b.Attributes.Transactional()
	}
	return true
}

func (s *abortedSet) reach(offset int64) {
	for len(s.todo) > 0 && s.todo[0].FirstOffset <= offset {
		s.active[s.todo[0].ProducerID] = struct{}{}
		s.todo = s.todo[1:]
	}
}
