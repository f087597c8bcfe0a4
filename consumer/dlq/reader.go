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

// giveUpAfter is how long a command retries a request. A change of leaders or coordinators
// takes less.
const giveUpAfter = 30 * time.Second

// errNoProgress says that a broker answered, but without what was asked for.
var errNoProgress = errors.New("the broker sent nothing new")

// reader reads the committed records of one partition from at to end. It holds one answer of
// a broker at a time.
type reader struct {
	client *broker.Client
	topic  string
	id     int
	at     int64 // the next offset to fetch
	end    int64 // the offset to stop before
	limit  int32 // bytes to fetch at once
}

func newReader(cl *broker.Client, topic string, id int, at, end int64) *reader {
	return &reader{client: cl, topic: topic, id: id, at: at, end: end, limit: broker.FetchBytes}
}

// next returns the next records, which may be none, and io.EOF at the end. Offsets between two
// records hold no letter.
func (r *reader) next(ctx context.Context) ([]job.Record, error) {
	if r.at >= r.end {
		return nil, io.EOF
	}
	var records []job.Record
	err := retry(ctx, func(ctx context.Context) error {
		var err error
		records, err = r.fetch(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read %s/%d from offset %d: %w", r.topic, r.id, r.at, err)
	}
	return records, nil
}

func (r *reader) fetch(ctx context.Context) (records []job.Record, err error) {
	next := r.at
	err = broker.FetchPartition(ctx, r.client, r.topic, r.id, r.at, r.limit, func(res *kmsg.FetchResponseTopicPartition) error {
		records, next, err = r.decode(res)
		return err
	})
	if errors.Is(err, kafka.OffsetOutOfRange) {
		return nil, r.skipDeleted(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	if next == r.at {
		// A batch may be larger than the limit, and some brokers then truncate it.
		r.limit = min(r.limit*2, broker.MaxFetchBytes)
		return nil, errNoProgress
	}
	r.at, r.limit = next, broker.FetchBytes
	return records, nil
}

// skipDeleted continues at the present beginning of the log, after retention has deleted
// records.
func (r *reader) skipDeleted(ctx context.Context, cause error) error {
	first, _, err := broker.LogRange(ctx, r.client, r.topic, r.id, kafka.ReadCommitted)
	if err != nil {
		return err
	}
	if first <= r.at {
		return fmt.Errorf("the log became shorter while it was read: %w", cause)
	}
	r.at = first
	return nil
}

// decode copies the records out of an answer. It skips aborted records and markers.
func (r *reader) decode(res *kmsg.FetchResponseTopicPartition) (records []job.Record, next int64, err error) {
	all, next, err := r.client.CommittedRecords(res, r.at)
	if err != nil {
		return nil, 0, err
	}
	for _, raw := range all {
		if raw.Offset < r.end {
			rec := copyRecord(raw)
			rec.Topic, rec.Partition = r.topic, r.id
			records = append(records, rec)
		}
	}
	return records, next, nil
}

// copyRecord copies a record out of an answer. It keeps the difference between nil and empty.
func copyRecord(raw *kgo.Record) job.Record {
	rec := job.Record{
		Offset: raw.Offset, Time: raw.Timestamp, Key: bytes.Clone(raw.Key), Value: bytes.Clone(raw.Value),
		Headers: make([]job.Header, len(raw.Headers)),
	}
	for i, h := range raw.Headers {
		rec.Headers[i] = job.Header{Key: h.Key, Value: bytes.Clone(h.Value)}
	}
	return rec
}

// retry calls try until it succeeds, fails with an error that is not temporary, or giveUpAfter
// has passed.
func retry(ctx context.Context, try func(context.Context) error) error {
	until := time.Now().Add(giveUpAfter)
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

// temporary tells whether an error may pass: leaders move and connections end.
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
