package consumer

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

const forever = time.Duration(math.MaxInt64)

// warnOfForgetting notes when the topic keeps letters for longer than Kafka
// remembers what was settled: those would be open again, and be replayed once
// more. Where the cluster doesn't tell, nothing is noted.
func (s *letterSession) warnOfForgetting(ctx context.Context, topic string) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
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
				remembered = times(c.ConfigValue, time.Minute)
			case "retention.ms":
				kept = times(c.ConfigValue, time.Millisecond)
			}
		}
	}
	if remembered > 0 && kept > remembered {
		s.tally.note(fmt.Sprintf("%s keeps letters for %s, but %s after the last command the brokers forget what was settled "+
			"(offsets.retention.minutes), and what is still there is open again", topic, span(kept), span(remembered)))
	}
}

// times reads so many units; 0: can't be read. -1 is for ever.
func times(text string, unit time.Duration) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return 0
	case n < 0 || n > int64(forever/unit):
		return forever
	}
	return time.Duration(n) * unit
}

func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == forever:
		return "ever"
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	}
	return tierName(d)
}
