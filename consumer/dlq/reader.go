package dlq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"dispatcher/consumer/internal/broker"

	"dispatcher/internal/wait"
	"dispatcher/job"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Patience is how long a cluster may fail to answer an operator before
// the command gives up: longer than a change of leaders or coordinators takes.
const Patience = 30 * time.Second

// errNoProgress: a broker answered, and nothing came of it.
var errNoProgress = errors.New("nothing more came")

// reader reads the committed records of one partition from at to end,
// without a group. It holds one answer of a broker at a time.
type reader struct {
	cl    *broker.Client
	topic string
	id    int
	at    int64 // the next offset to ask for
	end   int64 // where to stop
	limit int32 // bytes to ask for
}

func newReader(cl *broker.Client, topic string, id int, at, end int64) *reader {
	return &reader{cl: cl, topic: topic, id: id, at: at, end: end, limit: broker.FetchBytes}
}

// next returns the next records, which may be none, and io.EOF at the end.
// Offsets that are left out between two records hold no letter.
func (r *reader) next(ctx context.Context) ([]job.Record, error) {
	if r.at >= r.end {
		return nil, io.EOF
	}
	var records []job.Record
	err := retry(ctx, func(ctx context.Context) error {
		var err error
		records, err = r.step(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s/%d from offset %d: %w", r.topic, r.id, r.at, err)
	}
	return records, nil
}

func (r *reader) step(ctx context.Context) (records []job.Record, err error) {
	next := r.at
	err = broker.FetchPartition(ctx, r.cl, r.topic, r.id, r.at, r.limit, func(res *kmsg.FetchResponseTopicPartition) error {
		records, next, err = r.read(res)
		return err
	})
	if errors.Is(err, kafka.OffsetOutOfRange) {
		return nil, r.followStart(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	if next == r.at {
		// More than was asked for may be one batch, which some brokers then cut.
		r.limit = min(r.limit*2, broker.MaxFetchBytes)
		return nil, errNoProgress
	}
	r.at, r.limit = next, broker.FetchBytes
	return records, nil
}

// followStart goes on where the log begins now: what lay before is gone.
func (r *reader) followStart(ctx context.Context, cause error) error {
	first, _, err := broker.LogRange(ctx, r.cl, r.topic, r.id, kafka.ReadCommitted)
	if err != nil {
		return err
	}
	if first <= r.at {
		return fmt.Errorf("the log has become shorter while it was read: %w", cause)
	}
	r.at = first
	return nil
}

// read copies the records out of an answer. Aborted ones and markers are passed.
func (r *reader) read(res *kmsg.FetchResponseTopicPartition) (records []job.Record, next int64, err error) {
	all, next, err := broker.CommittedRecords(res, r.at, r.cl.Decompress)
	if err != nil {
		return nil, 0, err
	}
	for _, raw := range all {
		if raw.Offset < r.end {
			rec := ownRecord(raw)
			rec.Topic, rec.Partition = r.topic, r.id
			records = append(records, rec)
		}
	}
	return records, next, nil
}

// ownRecord copies a record out of the answer. It keeps the difference between
// none and empty.
func ownRecord(raw *kgo.Record) job.Record {
	rec := job.Record{
		Offset: raw.Offset, Time: raw.Timestamp, Key: bytes.Clone(raw.Key), Value: bytes.Clone(raw.Value),
		Headers: make([]job.Header, len(raw.Headers)),
	}
	for i, h := range raw.Headers {
		rec.Headers[i] = job.Header{Key: h.Key, Value: bytes.Clone(h.Value)}
	}
	return rec
}

// retry tries until it works, or what went wrong won't pass by itself, or
// patience is at its end.
func retry(ctx context.Context, try func(context.Context) error) error {
	until := time.Now().Add(Patience)
	for n := 0; ; n++ {
		once, cancel := context.WithTimeout(ctx, broker.CallTimeout+broker.FetchWait)
		err := try(once)
		cancel()
		if err == nil || !temporary(err) || time.Now().After(until) {
			return err
		}
		if !wait.For(ctx, wait.Backoff(n, 25*time.Millisecond, time.Second)) {
			return ctx.Err()
		}
	}
}

// temporary tells whether an error may be over soon: brokers and leaders come and
// go, and connections with them.
func temporary(err error) bool {
	if broker.Permanent(err) {
		return false
	}
	if e, ok := errors.AsType[kafka.Error](err); ok {
		return e.Temporary()
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, errNoProgress) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded)
}
