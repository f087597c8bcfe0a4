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

// warnOfForgetting notes when the topic keeps letters for longer than Kafka
// remembers what was settled: those would be open again, and be replayed once
// more. Where the cluster doesn't tell, nothing is noted.
func (s *command) warnOfForgetting(ctx context.Context, topic string) {
	ctx, cancel := context.WithTimeout(ctx, broker.CallTimeout)
	defer cancel()
	res, err := s.cl.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
		{
			ResourceType: kafka.ResourceTypeBroker, ResourceName: strconv.Itoa(s.layout[topic].Partitions[0].Leader.ID),
			ConfigNames: []string{"offsets.retention.minutes"},
		},
		{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"}},
	}})
	if err != nil {
		return
	}
	var remembered, kept time.Duration // 0: not told
	for _, r := range res.Resources {
		for _, c := range r.ConfigEntries {
			switch c.ConfigName {
			case "offsets.retention.minutes":
				remembered = broker.ParseDuration(c.ConfigValue, time.Minute)
			case "retention.ms":
				kept = broker.ParseDuration(c.ConfigValue, time.Millisecond)
			}
		}
	}
	if remembered > 0 && kept > remembered {
		s.tally.note(fmt.Sprintf("%s keeps letters for %s, but %s after the last command the brokers forget what was settled "+
			"(offsets.retention.minutes), and what is still there is open again", topic, span(kept), span(remembered)))
	}
}

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
