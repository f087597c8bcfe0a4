package produce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"dispatcher/consumer/internal/batches"
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
	Timeout time.Duration // how long Kafka may take for one call of WriteBatch; default 1 min
}

// BatchWriter writes jobs to Kafka and waits until all replicas have acknowledged them. It
// chooses the partitions that Java clients choose for the same keys, and writes a record once
// even if a request is repeated. It may be used from several goroutines; several calls at a
// time keep more requests in flight.
type BatchWriter struct {
	opts   BatchOptions
	writer *Writer

	mu     sync.Mutex
	topics map[string]bool // known to exist
}

// batchAttempts is how often kgo tries a batch that Kafka refuses: for half a minute, in which a partition gets another leader.
const batchAttempts = 20

// NewBatchWriter checks the options. It does not connect.
func NewBatchWriter(o BatchOptions) (*BatchWriter, error) {
	o.SetDefaults()
	o.Timeout = cmp.Or(o.Timeout, time.Minute)
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("producer options: %w", err)
	}
	w, err := NewWriter(&o.Connection, WriterOptions{Logger: slog.New(slog.DiscardHandler), Linger: o.Linger, Attempts: batchAttempts})
	if err != nil {
		return nil, fmt.Errorf("producer options: %w", err)
	}
	return &BatchWriter{opts: o, writer: w, topics: make(map[string]bool)}, nil
}

// TooLargeError says that a record is larger than its topic accepts.
type TooLargeError struct {
	Topic   string
	Index   int // of the first such record in the batch
	Bytes   int // of that record, before compression
	Written int // records of the batch that Kafka has
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("topic %s takes no record of %d bytes: raise its max.message.bytes, or make the record smaller", e.Topic, e.Bytes)
}

// UnwrittenError says that no record of a batch was written, and none will be.
type UnwrittenError struct{ Err error }

func (e *UnwrittenError) Error() string { return "nothing was written: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *UnwrittenError) Unwrap() error { return e.Err }

// WriteBatch writes records to a topic and returns when Kafka has all of them. It uses only
// key, value, headers and time of each record; a zero time means now. Before the first batch
// of a topic it checks that the topic exists. It never creates a topic.
//
// After an [*UnwrittenError] no record was written. After any other error some records may
// have been written, or may still be until Close. A [*TooLargeError] names the first record
// that is too large.
func (w *BatchWriter) WriteBatch(ctx context.Context, topic string, records []job.Record) error {
	faults, err := w.Write(ctx, topic, records)
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
		return &TooLargeError{Topic: topic, Index: large, Bytes: batches.RecordBytes(&records[large]), Written: len(records) - missing}
	case other != nil:
		return fmt.Errorf("write to topic %s: %d of %d records not acknowledged: %w", topic, missing, len(records), other)
	}
	return nil
}

// errUnacknowledged means that the record may or may not be written.
var errUnacknowledged = errors.New("not acknowledged in time")

// Write writes records as [BatchWriter.WriteBatch] does. It returns one error for each record:
// nil if Kafka has the record, else why it is not known to be written.
func (w *BatchWriter) Write(ctx context.Context, topic string, records []job.Record) ([]error, error) {
	if err := w.Check(ctx, topic); err != nil {
		return nil, &UnwrittenError{err}
	}
	type outcome struct {
		i   int
		err error
	}
	outcomes := make(chan outcome, len(records)) // Done must not block
	faults := make([]error, len(records))
	for i := range records {
		faults[i] = errUnacknowledged
		// Not the caller's context: its end would fail the whole batch, with records of
		// other callers.
		w.writer.Put(&Request{Record: kafkaRecord(topic, &records[i]), Context: context.Background(), Done: func(err error) { //nolint:contextcheck // see above
			outcomes <- outcome{i, err}
		}})
	}
	late := time.NewTimer(w.opts.Timeout)
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

// kafkaRecord converts a record for kgo.
func kafkaRecord(topic string, r *job.Record) *kgo.Record {
	rec := &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value, Timestamp: r.Time, Headers: make([]kgo.RecordHeader, len(r.Headers))}
	for i, h := range r.Headers {
		rec.Headers[i] = kgo.RecordHeader{Key: h.Key, Value: h.Value}
	}
	return rec
}

// Close closes the connections. Records that are not acknowledged may or may not be
// written.
func (w *BatchWriter) Close() error {
	w.writer.Close()
	return nil
}

// Check returns an error if the topic does not exist. It also reads how large a batch the
// topic accepts.
func (w *BatchWriter) Check(ctx context.Context, topic string) error {
	w.mu.Lock()
	known := w.topics[topic]
	w.mu.Unlock()
	if known {
		return nil
	}
	if !topicname.Valid(topic) {
		return fault.New("topic", topic, topicname.Rule)
	}
	cl, err := broker.NewClient(&w.opts.Connection, []string{topic})
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil {
		return err
	}
	if _, err := broker.RequireTopics(ctx, &w.opts.Connection, []string{topic}, []string{topic}); err != nil {
		return err
	}
	if settings, err := broker.DescribeTopics(ctx, cl, []string{topic}); err == nil {
		w.writer.UseSettings(topic, settings[topic])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.topics[topic] = true
	return nil
}
