package dlq

import (
	"context"
	"errors"
	"fmt"
	"io"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/broker"
	"dispatcher/job"

	"github.com/segmentio/kafka-go"
)

// originals reads the records that letters were truncated from. It belongs to one goroutine.
type originals struct {
	conn   *broker.Connection
	topics map[string]original
}

// original is a topic that letters were truncated from.
type original struct {
	client     *broker.Client
	partitions int   // 0: the topic does not exist
	refused    error // nil: the topic can be read
}

func newOriginals(conn *broker.Connection) *originals {
	return &originals{conn: conn, topics: map[string]original{}}
}

func (o *originals) close() {
	for _, t := range o.topics {
		if t.client != nil {
			t.client.Close()
		}
	}
}

// restore completes a truncated letter. It returns false if the original record was deleted,
// or if another record has its place.
func (o *originals) restore(ctx context.Context, l *deadletter.Letter) (deadletter.Letter, bool, error) {
	if l.Origin.Topic == "" {
		return *l, false, nil
	}
	t, err := o.topic(ctx, l.Origin.Topic)
	if err != nil || l.Origin.Partition >= t.partitions {
		return *l, false, err
	}
	var first, last int64
	err = retry(ctx, func(ctx context.Context) error {
		first, last, err = broker.LogRange(ctx, t.client, l.Origin.Topic, l.Origin.Partition, kafka.ReadCommitted)
		return err
	})
	if err != nil {
		return *l, false, fmt.Errorf("read the origin %s: %w", l.Origin, err)
	}
	if l.Origin.Offset < first || l.Origin.Offset >= last {
		return *l, false, nil
	}
	rec, found, err := readRecord(ctx, t.client, l.Origin)
	if err != nil || !found || !deadletter.TruncatedFrom(l, &rec) {
		return *l, false, err
	}
	return deadletter.Restored(l, &rec), true, nil
}

// topic looks a topic up, once.
func (o *originals) topic(ctx context.Context, name string) (original, error) {
	if t, known := o.topics[name]; known {
		return t, t.refused
	}
	var t original
	layout, err := broker.RequireTopics(ctx, o.conn, []string{name}, []string{name})
	_, missing := errors.AsType[*broker.MissingTopicError](err)
	switch {
	case missing:
	case topicRefused(err):
		t.refused = err
	case err != nil:
		return t, err
	default:
		t.partitions = len(layout[name].Partitions)
		if t.client, err = broker.NewClient(o.conn, []string{name}); err != nil {
			return t, err
		}
	}
	o.topics[name] = t
	return t, t.refused
}

// topicRefused tells whether Kafka refuses a topic's name, or this account's right to the topic.
func topicRefused(err error) bool {
	return errors.Is(err, kafka.InvalidTopic) || errors.Is(err, kafka.TopicAuthorizationFailed)
}

// readRecord reads one record. It returns false if there is no record at that offset.
func readRecord(ctx context.Context, cl *broker.Client, id deadletter.RecordID) (job.Record, bool, error) {
	r := newReader(cl, id.Topic, id.Partition, id.Offset, id.Offset+1)
	for {
		records, err := r.next(ctx)
		switch {
		case len(records) > 0:
			return records[0], true, nil
		case errors.Is(err, io.EOF):
			return job.Record{}, false, nil
		case err != nil:
			return job.Record{}, false, err
		}
	}
}
