package produce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"dispatcher/consumer/internal/broker"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/fault"
	"dispatcher/job"

	"github.com/twmb/franz-go/pkg/kgo"
)

// BatchOptions configures a [BatchWriter]. A zero field means its default.
type BatchOptions struct {
	broker.Connection

	Linger  time.Duration // how long a batch that isn't full waits; default 5 ms
	Timeout time.Duration // how long Kafka may take for a batch of WriteBatch; default 1 min
}

// BatchWriter writes jobs to Kafka, acknowledged by all replicas, and with the
// partitions that Java clients choose for the same keys. It is safe to use from
// several goroutines; more than one at a time keeps more requests under way.
// It is idempotent: a request whose answer is lost is sent again, and written once.
type BatchWriter struct {
	opts   BatchOptions
	writer *Writer

	mu     sync.Mutex
	topics map[string]bool // that exist
}

// batchTries is how often a batch is tried that Kafka refuses.
const batchTries = 5

// NewBatchWriter checks the options. It does not connect.
func NewBatchWriter(o BatchOptions) (*BatchWriter, error) {
	o.SetDefaults()
	o.Linger = cmp.Or(o.Linger, DefaultLinger)
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("producer options: %w", err)
	}
	w, err := NewWriter(&o.Connection, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return nil, fmt.Errorf("producer options: %w", err)
	}
	w.Linger, w.Tries = o.Linger, batchTries
	return &BatchWriter{opts: o, writer: w, topics: make(map[string]bool)}, nil
}

// TooLargeError says that a record is larger than its topic takes.
type TooLargeError struct {
	Topic   string
	Index   int // of the first such record among those of the batch
	Bytes   int // of it, before compression
	Written int // records of the batch that Kafka has
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("topic %s takes no record of %d bytes: raise its max.message.bytes, or make the record smaller", e.Topic, e.Bytes)
}

// UnwrittenError says that none of a batch was written, and none will be.
type UnwrittenError struct{ Err error }

func (e *UnwrittenError) Error() string { return "nothing was written: " + e.Err.Error() }

// Unwrap gives the reason.
func (e *UnwrittenError) Unwrap() error { return e.Err }

// WriteBatch writes records to a topic and returns when Kafka has all of them.
// Only key, value, headers and time are taken; a zero time is the present. Before
// the first batch of a topic it checks that the topic exists, and it never
// creates one. After an [*UnwrittenError] no record was written. After any other
// error some may have been, or may still be until Close; a [*TooLargeError] names
// the first that is too large.
func (p *BatchWriter) WriteBatch(ctx context.Context, topic string, records []job.Record) error {
	faults, err := p.Write(ctx, topic, records)
	if err != nil {
		return err
	}
	large, other, missing := -1, error(nil), 0
	for i, fault := range faults {
		switch {
		case fault == nil:
			continue
		case broker.TooLarge(fault) && large < 0:
			large = i
		case !broker.TooLarge(fault) && other == nil:
			other = broker.KafkaError(fault)
		}
		missing++
	}
	switch {
	case large >= 0:
		return &TooLargeError{Topic: topic, Index: large, Bytes: broker.RecordBytes(&records[large]), Written: len(records) - missing}
	case other != nil:
		return fmt.Errorf("write to topic %s: %d of %d records not acknowledged: %w", topic, missing, len(records), other)
	}
	return nil
}

// errUnacknowledged: whether the record was written is not known.
var errUnacknowledged = errors.New("not acknowledged in time")

// Write returns of each record why it is not known to be written; nil: it is.
func (p *BatchWriter) Write(ctx context.Context, topic string, records []job.Record) ([]error, error) {
	if err := p.Check(ctx, topic); err != nil {
		return nil, &UnwrittenError{err}
	}
	type outcome struct {
		i   int
		err error
	}
	outcomes := make(chan outcome, len(records)) // room for all, since told must not block
	faults := make([]error, len(records))
	for i := range records {
		faults[i] = errUnacknowledged
		// Not the caller's context: its end would fail the records of others too.
		p.writer.Put(&Request{Record: kafkaRecord(topic, &records[i]), Context: context.Background(), Done: func(err error) { //nolint:contextcheck // see above
			outcomes <- outcome{i, err}
		}})
	}
	late := time.NewTimer(p.opts.Timeout)
	defer late.Stop()
	for range records {
		select {
		case o := <-outcomes:
			faults[o.i] = o.err
		case <-ctx.Done():
			return faults, nil
		case <-late.C:
			return faults, nil
		}
	}
	return faults, nil
}

// kafkaRecord is a record for Kafka's client.
func kafkaRecord(topic string, r *job.Record) *kgo.Record {
	rec := &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value, Timestamp: r.Time, Headers: make([]kgo.RecordHeader, len(r.Headers))}
	for i, h := range r.Headers {
		rec.Headers[i] = kgo.RecordHeader{Key: h.Key, Value: h.Value}
	}
	return rec
}

// Close ends the connections. What has not been acknowledged may or may not be
// written.
func (p *BatchWriter) Close() error {
	p.writer.Close()
	return nil
}

// Check makes sure that a topic exists, and learns how large its batches may be.
func (p *BatchWriter) Check(ctx context.Context, topic string) error {
	p.mu.Lock()
	known := p.topics[topic]
	p.mu.Unlock()
	if known {
		return nil
	}
	if !topicname.Valid(topic) {
		return fault.New("topic", topic, topicname.Rule)
	}
	cl, err := broker.NewClient(&p.opts.Connection, []string{topic})
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		return err
	}
	if _, err := broker.RequireTopics(ctx, &p.opts.Connection, []string{topic}, []string{topic}); err != nil {
		return err
	}
	if settings, err := broker.DescribeTopics(ctx, cl, []string{topic}); err == nil {
		p.writer.UseSettings(topic, settings[topic])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics[topic] = true
	return nil
}
