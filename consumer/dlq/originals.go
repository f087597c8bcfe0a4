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
	conn    *broker.Connection
	clients map[string]*broker.Client // by topic; nil: the topic does not exist
}

func newOriginals(conn *broker.Connection) *originals {
	return &originals{conn: conn, clients: map[string]*broker.Client{}}
}

func (o *originals) close() {
	for _, cl := range o.clients {
		if cl != nil {
			cl.Close()
		}
	}
}

// restore completes a truncated letter. It returns false if the original record was deleted,
// or if another record has its place.
func (o *originals) restore(ctx context.Context, l *deadletter.Letter) (deadletter.Letter, bool, error) {
	if l.Origin.Topic == "" {
		return *l, false, nil
	}
	cl, err := o.client(ctx, l.Origin.Topic)
	if err != nil || cl == nil {
		return *l, false, err
	}
	var first, last int64
	err = retry(ctx, func(ctx context.Context) error {
		first, last, err = broker.LogRange(ctx, cl, l.Origin.Topic, l.Origin.Partition, kafka.ReadCommitted)
		return err
	})
	if err != nil {
		return *l, false, fmt.Errorf("read the origin %s: %w", l.Origin, err)
	}
	if l.Origin.Offset < first || l.Origin.Offset >= last {
		return *l, false, nil
	}
	rec, found, err := readRecord(ctx, cl, l.Origin)
	if err != nil || !found || !deadletter.TruncatedFrom(l, &rec) {
		return *l, false, err
	}
	return deadletter.Restored(l, &rec), true, nil
}

// client returns a client for a topic; nil: the topic does not exist.
func (o *originals) client(ctx context.Context, topic string) (*broker.Client, error) {
	if cl, known := o.clients[topic]; known {
		return cl, nil
	}
	_, err := broker.RequireTopics(ctx, o.conn, []string{topic}, []string{topic})
	if _, missing := errors.AsType[*broker.MissingTopicError](err); missing {
		o.clients[topic] = nil
		return nil, nil //nolint:nilnil // a nil client means a missing topic
	}
	if err != nil {
		return nil, err
	}
	cl, err := broker.NewClient(o.conn, []string{topic})
	if err == nil {
		o.clients[topic] = cl
	}
	return cl, err
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
