package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"dispatcher/job"

	"github.com/segmentio/kafka-go"
)

// ProducerOptions configures a [Producer]. A zero field means its default.
type ProducerOptions struct {
	Connection

	BatchSize  int           // records a request and partition; default 1000
	BatchBytes int           // bytes a request and partition; default 1 MiB less some room
	Linger     time.Duration // how long a batch that isn't full waits; default 5 ms
	Timeout    time.Duration // of one request; default 10 s
}

// Producer writes jobs to Kafka, acknowledged by all replicas, and with the
// partitions that Java clients choose for the same keys. It is safe to use from
// several goroutines; more than one at a time keeps more requests under way.
// It is not idempotent: a request whose answer is lost is sent again.
type Producer struct {
	opts ProducerOptions

	mu     sync.Mutex
	topics map[string]*topicWriter
	closed bool
}

// topicWriter is one topic that is known to exist.
type topicWriter struct {
	client *client
	writer *kafka.Writer
}

func (w *topicWriter) close() error {
	defer w.client.close()
	return w.writer.Close()
}

// NewProducer checks the options. It does not connect.
func NewProducer(o ProducerOptions) (*Producer, error) {
	o.setDefaults()
	orDefault(&o.BatchSize, 1000)
	orDefault(&o.BatchBytes, letterBytes)
	orDefault(&o.Linger, deadLinger)
	orDefault(&o.Timeout, 10*time.Second)
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("producer options: %w", err)
	}
	return &Producer{opts: o, topics: make(map[string]*topicWriter)}, nil
}

// WriteBatch writes records to a topic and returns when Kafka has all of them.
// Only key, value, headers and time are taken; a zero time is Kafka's. Before
// the first batch of a topic it checks that the topic exists, and it never
// creates one. After an error some of the records may have been written.
func (p *Producer) WriteBatch(ctx context.Context, topic string, records []job.Record) error {
	w, err := p.topic(ctx, topic)
	if err != nil {
		return err
	}
	msgs := make([]kafka.Message, len(records))
	for i := range records {
		r := &records[i]
		msgs[i] = kafka.Message{Key: r.Key, Value: r.Value, Time: r.Time, Headers: make([]kafka.Header, len(r.Headers))}
		for k, h := range r.Headers {
			msgs[i].Headers[k] = kafka.Header{Key: h.Key, Value: h.Value}
		}
	}
	if err := w.writer.WriteMessages(ctx, msgs...); err != nil {
		// Not wrapped: the client's error carries the records.
		if _, large := errors.AsType[kafka.MessageTooLargeError](err); large {
			return fmt.Errorf("write to topic %s: a record is larger than %d bytes", topic, p.opts.BatchBytes)
		}
		return fmt.Errorf("write to topic %s: %d of %d records not acknowledged: %w",
			topic, len(unwritten(msgs, err)), len(msgs), firstError(err))
	}
	return nil
}

// Close ends the connections. Calls to WriteBatch must have returned.
func (p *Producer) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var faults []error
	for _, w := range p.topics {
		faults = append(faults, w.close())
	}
	p.topics, p.closed = nil, true
	return errors.Join(faults...)
}

// topic returns the writer of a topic, after a check that it exists.
func (p *Producer) topic(ctx context.Context, topic string) (*topicWriter, error) {
	p.mu.Lock()
	w, closed := p.topics[topic], p.closed
	p.mu.Unlock()
	if w != nil {
		return w, nil
	}
	if closed {
		return nil, errors.New("write: the producer is closed")
	}
	if !topicName.MatchString(topic) {
		return nil, fault("topic", fmt.Sprintf("%q", topic), "must be 1 to 249 of a-z A-Z 0-9 . _ -")
	}
	w, err := p.open(ctx, topic)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.Join(errors.New("write: the producer is closed"), w.close())
	}
	if known := p.topics[topic]; known != nil { // another goroutine was faster
		return known, w.close()
	}
	p.topics[topic] = w
	return w, nil
}

func (p *Producer) open(ctx context.Context, topic string) (*topicWriter, error) {
	cl, err := newClient(&p.opts.Connection, []string{topic})
	if err != nil {
		return nil, err
	}
	if err := cl.greet(ctx); err != nil {
		return nil, err
	}
	if _, err := topicLayout(ctx, &p.opts.Connection, []string{topic}, []string{topic}); err != nil {
		return nil, err
	}
	return &topicWriter{client: cl, writer: &kafka.Writer{
		Topic: topic, Addr: cl.Addr, Transport: cl.transport,
		Balancer: kafka.Murmur2Balancer{}, RequiredAcks: kafka.RequireAll, MaxAttempts: 5,
		BatchSize: p.opts.BatchSize, BatchBytes: int64(p.opts.BatchBytes), BatchTimeout: p.opts.Linger,
		ReadTimeout: p.opts.Timeout, WriteTimeout: p.opts.Timeout,
	}}, nil
}
