package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"dispatcher/internal/wait"
)

// topicLag is how long a broker may not know a topic that was just created.
const topicLag = 500 * time.Millisecond

// MissingTopicError names a topic that does not exist.
type MissingTopicError struct{ Topic, Hint string }

func (e *MissingTopicError) Error() string {
	return fmt.Sprintf("topic %s does not exist: %s", e.Topic, e.Hint)
}

// RequireTopics returns the layout of the topics that exist, and an error if one of the
// needed topics is missing. It uses a connection of its own, so no cached metadata hides a
// new topic. It never creates a topic.
func RequireTopics(ctx context.Context, conn *Connection, topics, needed []string) (map[string]kafka.Topic, error) {
	for attempt := 1; ; attempt++ {
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
		if attempt == 2 || !wait.For(ctx, topicLag) {
			return nil, &MissingTopicError{missing, "create it first, or correct the name"}
		}
	}
}

// Topics returns the layout of the topics that exist, among those named. nil: of all topics.
func Topics(ctx context.Context, conn *Connection, topics []string) (map[string]kafka.Topic, error) {
	cl, err := NewClient(conn, topics)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	res, err := cl.Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
	if err != nil {
		return nil, fmt.Errorf("request topics: %w", err)
	}
	layout := make(map[string]kafka.Topic, len(topics))
	for _, t := range res.Topics {
		switch {
		case errors.Is(t.Error, kafka.UnknownTopicOrPartition):
		case t.Error != nil:
			return nil, fmt.Errorf("request topic %s: %w", t.Name, t.Error)
		case len(t.Partitions) > 0:
			layout[t.Name] = t
		}
	}
	return layout, nil
}
