package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"dispatcher/internal/wait"
)

// topicLag is how long a topic that was just created may stay unknown to the
// broker that is asked.
const topicLag = 500 * time.Millisecond

// MissingTopicError names a topic that does not exist.
type MissingTopicError struct{ Topic, Hint string }

func (e *MissingTopicError) Error() string {
	return fmt.Sprintf("topic %s does not exist: %s", e.Topic, e.Hint)
}

// RequireTopics asks for topics, with a connection of its own so that no cache
// answers. It never creates a topic. Those in needed must exist; of the others
// the answer holds the ones that do.
func RequireTopics(ctx context.Context, conn *Connection, topics, needed []string) (map[string]kafka.Topic, error) {
	for n := 0; ; n++ {
		layout, err := Topics(ctx, conn, topics)
		if err != nil {
			return nil, err
		}
		missing := ""
		for _, t := range needed {
			if _, ok := layout[t]; !ok {
				missing = t
				break
			}
		}
		if missing == "" {
			return layout, nil
		}
		if n == 1 || !wait.For(ctx, topicLag) {
			return nil, &MissingTopicError{missing, "create it first, or correct the name"}
		}
	}
}

// Topics asks for topics, nil for all; the answer holds those that exist.
func Topics(ctx context.Context, conn *Connection, topics []string) (map[string]kafka.Topic, error) {
	cl, err := NewClient(conn, topics)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	res, err := cl.Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
	if err != nil {
		return nil, fmt.Errorf("ask for topics: %w", err)
	}
	layout := make(map[string]kafka.Topic, len(topics))
	for _, t := range res.Topics {
		switch {
		case errors.Is(t.Error, kafka.UnknownTopicOrPartition):
		case t.Error != nil:
			return nil, fmt.Errorf("ask for topic %s: %w", t.Name, t.Error)
		case len(t.Partitions) > 0:
			layout[t.Name] = t
		}
	}
	return layout, nil
}
