package dlq

import (
	"context"
	"fmt"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/topicname"
)

// warnOfRetention adds a note if the topic keeps letters for longer than Kafka keeps the
// group's offsets: settled letters would be open again, and could be replayed again. It adds
// none if the cluster does not show the settings.
func (c *command) warnOfRetention(ctx context.Context, topic string) {
	ctx, cancel := context.WithTimeout(ctx, broker.CallTimeout)
	defer cancel()
	remembered, err := broker.OffsetsRetention(ctx, c.client, c.layout[topic].Partitions[0].Leader.ID)
	if err != nil || remembered == 0 {
		return
	}
	settings, err := broker.DescribeTopics(ctx, c.client, []string{topic})
	if err != nil {
		return
	}
	if kept := settings[topic].Retention(); kept > remembered {
		c.tally.note(fmt.Sprintf("%s keeps letters for %s, but %s after the last command the brokers forget what was settled "+
			"(offsets.retention.minutes), and what is still there is open again", topic, span(kept), span(remembered)))
	}
}

// span formats a time for people.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == broker.Forever:
		return "ever"
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	}
	return topicname.Delay(d)
}
