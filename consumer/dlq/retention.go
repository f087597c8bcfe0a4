package dlq

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/topicname"

	"github.com/segmentio/kafka-go"
)

// offsetsRetention is the brokers' setting for how long they keep a group's offsets.
const offsetsRetention = "offsets.retention.minutes"

// warnOfRetention adds a note if the topic keeps letters for longer than Kafka keeps the
// group's offsets: settled letters would be open again, and could be replayed again. It adds
// none if the cluster does not show the settings.
func (c *command) warnOfRetention(ctx context.Context, topic string) {
	ctx, cancel := context.WithTimeout(ctx, broker.CallTimeout)
	defer cancel()
	res, err := c.client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
		{
			ResourceType: kafka.ResourceTypeBroker, ResourceName: strconv.Itoa(c.layout[topic].Partitions[0].Leader.ID),
			ConfigNames: []string{offsetsRetention},
		},
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{broker.RetentionTime}},
	}})
	if err != nil {
		return
	}
	var remembered, kept time.Duration // 0: not known
	for _, r := range res.Resources {
		for _, e := range r.ConfigEntries {
			switch e.ConfigName {
			case offsetsRetention:
				remembered = broker.ParseDuration(e.ConfigValue, time.Minute)
			case broker.RetentionTime:
				kept = broker.ParseDuration(e.ConfigValue, time.Millisecond)
			}
		}
	}
	if remembered > 0 && kept > remembered {
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
