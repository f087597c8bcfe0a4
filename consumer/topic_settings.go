package consumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"dispatcher/consumer/internal/broker"

	"dispatcher/consumer/internal/topicname"

	"github.com/segmentio/kafka-go"
)

// retryRetention is how long at least a retry topic keeps its jobs beyond their
// delay, unless its source topic keeps them for a shorter time.
const retryRetention = 7 * 24 * time.Hour

// compactedError says that a topic can't be read for jobs.
type compactedError struct{ topic, value string }

func (e *compactedError) Error() string {
	return fmt.Sprintf("topic %s: %s=%s: compaction would delete jobs that were not sent, those with the key of a later one; mend it with %s",
		e.topic, broker.CleanupPolicy, e.value, alterCommand(e.topic, broker.CleanupPolicy, "delete"))
}

// alterCommand is what an operator runs to change a setting.
func alterCommand(topic, name, value string) string {
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server … --alter --entity-type topics --entity-name %s --add-config %s=%s", topic, name, value)
}

// refuseCompacted returns an error for the first topic that jobs are read from
// and whose log is compacted.
func (o *Options) refuseCompacted(all map[string]broker.TopicSettings) error {
	for _, t := range o.jobTopics() {
		sources := []string{t}
		for _, tier := range o.RetryTopics {
			sources = append(sources, topicname.Retry(t, tier))
		}
		for _, s := range sources {
			if all[s].Compacted() {
				return &compactedError{s, all[s][broker.CleanupPolicy].Value}
			}
		}
	}
	return nil
}

// derived says what settings a derived topic is created with. Its source's size
// limit and durability are copied where they are the source's own; otherwise the
// cluster's hold for both.
func (o *Options) derived(name, of string, source broker.TopicSettings) broker.TopicSettings {
	wanted := broker.TopicSettings{}
	for _, copied := range []string{broker.MaxMessageBytes, broker.MinInsyncReplicas} {
		if s := source[copied]; s.Own {
			wanted[copied] = s
		}
	}
	if name == topicname.Results(of) {
		return wanted // is for others to keep
	}
	wanted[broker.CleanupPolicy] = broker.Setting{Value: "delete"}
	wanted[broker.RetentionBytes] = broker.Setting{Value: "-1"}
	wanted[broker.RetentionTime] = broker.Setting{Value: "-1"} // an open dead letter does not vanish
	if tier := o.tierOf(name, of); tier > 0 && source.Retention() < broker.Forever {
		keep := max(source.Retention(), retryRetention) + tier
		wanted[broker.RetentionTime] = broker.Setting{Value: strconv.FormatInt(keep.Milliseconds(), 10)}
	}
	return wanted
}

// wrong returns the settings of a derived topic that lose or cut what is written
// to it, and the values they should have.
func (o *Options) wrong(name, of string, source, is broker.TopicSettings) broker.TopicSettings {
	bad := broker.TopicSettings{}
	should := o.derived(name, of, source)
	if s, ok := source.Number(broker.MaxMessageBytes); ok {
		if n, told := is.Number(broker.MaxMessageBytes); told && n < s {
			bad[broker.MaxMessageBytes] = broker.Setting{Value: source[broker.MaxMessageBytes].Value}
		}
	}
	if _, matters := should[broker.CleanupPolicy]; !matters {
		return bad
	}
	if is.Compacted() {
		bad[broker.CleanupPolicy] = should[broker.CleanupPolicy]
	}
	if n, told := is.Number(broker.RetentionBytes); told && n >= 0 {
		bad[broker.RetentionBytes] = should[broker.RetentionBytes]
	}
	least := broker.Forever
	if tier := o.tierOf(name, of); tier > 0 {
		least = min(source.Retention(), retryRetention) + tier
	}
	if kept := is.Retention(); kept > 0 && kept < least {
		bad[broker.RetentionTime] = should[broker.RetentionTime]
	}
	return bad
}

// tierOf is the delay of a retry topic; 0: it is none.
func (o *Options) tierOf(name, of string) time.Duration {
	for _, tier := range o.RetryTopics {
		if name == topicname.Retry(of, tier) {
			return tier
		}
	}
	return 0
}

// reviewTopics takes the settings of the topics in: it refuses sources that are
// compacted, warns of derived topics that can't hold what they are for, and tells
// the writer how large their batches may be.
func (c *Consumer) reviewTopics(ctx context.Context, there []string) (map[string]broker.TopicSettings, error) {
	all, err := broker.DescribeTopics(ctx, c.client, there)
	if _, answered := errors.AsType[kafka.Error](err); answered {
		c.opts.Logger.Info("the settings of topics could not be read, and are not checked", "error", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(all) < len(there) {
		c.opts.Logger.Info("the settings of some topics may not be read, and are not checked", "topics", len(there), "read", len(all))
	}
	if err := c.opts.refuseCompacted(all); err != nil {
		return nil, err
	}
	for _, of := range c.opts.jobTopics() {
		for _, name := range c.opts.derivedTopics(of) {
			if is, ok := all[name]; ok {
				c.warnOfSettings(name, c.opts.wrong(name, of, all[of], is), is)
			}
		}
	}
	return all, nil
}

// warnOfSettings says once what is wrong with a derived topic.
func (c *Consumer) warnOfSettings(topic string, wrong, is broker.TopicSettings) {
	if len(wrong) == 0 || c.warned[topic] {
		return
	}
	c.warned[topic] = true
	for name, should := range wrong {
		c.opts.Logger.Warn("a derived topic may cut or lose what is written to it",
			"topic", topic, "setting", name, "value", is[name].Value, "mend", alterCommand(topic, name, should.Value))
	}
}
