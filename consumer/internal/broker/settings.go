package broker

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

// Forever is the retention of records that are never deleted.
const Forever = time.Duration(math.MaxInt64)

// The settings of topics that dispatcher reads.
const (
	MaxMessageBytes   = "max.message.bytes"
	CleanupPolicy     = "cleanup.policy"
	MinInsyncReplicas = "min.insync.replicas"
	RetentionTime     = "retention.ms"
	RetentionBytes    = "retention.bytes"
)

// Setting is the value of a topic's setting.
type Setting struct {
	Value string
	Own   bool // set for this topic, not a default of the cluster
}

// TopicSettings are the settings of a topic by name. Settings that the cluster does not show
// are missing.
type TopicSettings map[string]Setting

// Number returns a setting as a number. It returns false if the setting is missing or is no
// number.
func (s TopicSettings) Number(name string) (int64, bool) {
	n, err := strconv.ParseInt(s[name].Value, 10, 64)
	return n, err == nil
}

// Retention is how long records are kept; 0: not known.
func (s TopicSettings) Retention() time.Duration {
	return ParseDuration(s[RetentionTime].Value, time.Millisecond)
}

// Compacted tells whether the topic's log is compacted.
func (s TopicSettings) Compacted() bool {
	return slices.Contains(strings.Split(strings.ReplaceAll(s[CleanupPolicy].Value, " ", ""), ","), "compact")
}

// configSourceTopic is the source of a setting that is the topic's own.
const configSourceTopic = 1

// DescribeTopics returns the settings of topics. Topics that this client may not see are left
// out.
func DescribeTopics(ctx context.Context, cl *Client, topics []string) (map[string]TopicSettings, error) {
	req := &kafka.DescribeConfigsRequest{}
	for _, t := range topics {
		req.Resources = append(req.Resources, kafka.DescribeConfigRequestResource{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: t,
			ConfigNames: []string{MaxMessageBytes, CleanupPolicy, MinInsyncReplicas, RetentionTime, RetentionBytes},
		})
	}
	res, err := cl.DescribeConfigs(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", err)
	}
	all := make(map[string]TopicSettings, len(res.Resources))
	for _, r := range res.Resources {
		if r.Error != nil {
			continue
		}
		s := make(TopicSettings, len(r.ConfigEntries))
		for _, e := range r.ConfigEntries {
			s[e.ConfigName] = Setting{e.ConfigValue, e.ConfigSource == configSourceTopic}
		}
		all[r.ResourceName] = s
	}
	return all, nil
}

// offsetsRetention is the brokers' setting for how long they keep the offsets of a group without members.
const offsetsRetention = "offsets.retention.minutes"

// OffsetsRetention returns how long a broker keeps the offsets of a group without members; 0: it does not show that.
func OffsetsRetention(ctx context.Context, cl *Client, id int) (time.Duration, error) {
	res, err := cl.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
		{ResourceType: kafka.ResourceTypeBroker, ResourceName: strconv.Itoa(id), ConfigNames: []string{offsetsRetention}},
	}})
	if err != nil {
		return 0, fmt.Errorf("describe a broker: %w", err)
	}
	for _, r := range res.Resources {
		for _, e := range r.ConfigEntries {
			if e.ConfigName == offsetsRetention {
				return ParseDuration(e.ConfigValue, time.Minute), nil
			}
		}
	}
	return 0, nil
}

// ParseDuration reads a number of units. A negative number means [Forever], and the result is
// 0 if the text is no number.
func ParseDuration(text string, unit time.Duration) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return 0
	case n < 0 || n > int64(Forever/unit):
		return Forever
	}
	return time.Duration(n) * unit
}
