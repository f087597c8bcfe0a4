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

// retryRetention is how long at least a retry topic that nodes create keeps its jobs beyond their delay. One that
// keeps them as long as its source topic does is not warned of.
const retryRetention = 7 * 24 * time.Hour

// compactedError says that a topic can't be read for jobs.
type compactedError struct{ topic, value string }

func (e *compactedError) Error() string {
	return fmt.Sprintf("topic %s: %s=%s: compaction would delete unsent jobs, those with the key of a later one; mend it with %s",
		e.topic, broker.CleanupPolicy, e.value, alterCommand(e.topic, broker.CleanupPolicy, "delete"))
}

// alterCommand is what an operator runs to change a setting.
func alterCommand(topic, name, value string) string {
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server … --alter --entity-type topics --entity-name %s --add-config %s=%s", topic, name, value)
}

// refuseCompacted returns an error for the first compacted topic that jobs are read from.
func (o *Options) refuseCompacted(all map[string]broker.TopicSettings) error {
	for _, t := range o.jobTopics() {
		for _, s := range o.sourceTopics(t) {
			if all[s].Compacted() {
				return &compactedError{s, all[s][broker.CleanupPolicy].Value}
			}
		}
	}
	return nil
}

// derivedSettings are the settings that a derived topic is created with. The size limit and
// the durability of its source are copied where they are the source's own; otherwise the
// cluster's apply to both.
func (o *Options) derivedSettings(name, of string, source broker.TopicSettings) broker.TopicSettings {
	wanted := broker.TopicSettings{}
	for _, copied := range []string{broker.MaxMessageBytes, broker.MinInsyncReplicas} {
		if s := source[copied]; s.Own {
			wanted[copied] = s
		}
	}
	if name == topicname.Results(of) {
		return wanted // its readers choose how long it is kept
	}
	wanted[broker.CleanupPolicy] = broker.Setting{Value: "delete"}
	wanted[broker.RetentionBytes] = broker.Setting{Value: "-1"}
	wanted[broker.RetentionTime] = broker.Setting{Value: "-1"} // an open dead letter does not vanish
	if delay := o.retryDelay(name, of); delay > 0 && source.Retention() < broker.Forever {
		keep := max(source.Retention(), retryRetention) + delay
		wanted[broker.RetentionTime] = broker.Setting{Value: strconv.FormatInt(keep.Milliseconds(), 10)}
	}
	return wanted
}

// wrongSettings are the settings of a derived topic that lose or cut its records, with the
// values they should have.
func (o *Options) wrongSettings(name, of string, source, is broker.TopicSettings) broker.TopicSettings {
	bad := broker.TopicSettings{}
	should := o.derivedSettings(name, of, source)
	if s, ok := source.Number(broker.MaxMessageBytes); ok {
		if n, ok := is.Number(broker.MaxMessageBytes); ok && n < s {
			bad[broker.MaxMessageBytes] = broker.Setting{Value: source[broker.MaxMessageBytes].Value}
		}
	}
	if _, matters := should[broker.CleanupPolicy]; !matters {
		return bad
	}
	if is.Compacted() {
		bad[broker.CleanupPolicy] = should[broker.CleanupPolicy]
	}
	if n, ok := is.Number(broker.RetentionBytes); ok && n >= 0 {
		bad[broker.RetentionBytes] = should[broker.RetentionBytes]
	}
	least := broker.Forever
	if delay := o.retryDelay(name, of); delay > 0 {
		least = min(source.Retention(), retryRetention) + delay
	}
	if kept := is.Retention(); kept > 0 && kept < least {
		bad[broker.RetentionTime] = should[broker.RetentionTime]
	}
	return bad
}

// retryDelay is the delay of a retry topic; 0: the topic is none.
func (o *Options) retryDelay(name, of string) time.Duration {
	for _, delay := range o.RetryTopics {
		if name == topicname.Retry(of, delay) {
			return delay
		}
	}
	return 0
}

// checkSettings reads the settings of the topics. It refuses sources that are compacted, and
// warns of derived topics that may lose their records.
func (k *topicCheck) checkSettings(ctx context.Context, topics []string) (map[string]broker.TopicSettings, error) {
	all, err := broker.DescribeTopics(ctx, k.client, topics)
	if _, answered := errors.AsType[kafka.Error](err); answered {
		k.log.Info("the settings of topics could not be read, and are not checked", "error", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(all) < len(topics) {
		k.log.Info("the settings of some topics may not be read, and are not checked", "topics", len(topics), "read", len(all))
	}
	if err := k.o.refuseCompacted(all); err != nil {
		return nil, err
	}
	for _, of := range k.o.jobTopics() {
		for _, name := range k.o.derivedTopics(of) {
			if is, ok := all[name]; ok {
				k.warnOfSettings(name, k.o.wrongSettings(name, of, all[of], is), is)
			}
		}
	}
	return all, nil
}

// warnOfSettings warns once of a derived topic.
func (k *topicCheck) warnOfSettings(topic string, wrong, is broker.TopicSettings) {
	if len(wrong) == 0 || k.warned[topic] {
		return
	}
	k.warned[topic] = true
	for name, should := range wrong {
		k.log.Warn("a derived topic may cut or lose what is written to it",
			"topic", topic, "setting", name, "value", is[name].Value, "mend", alterCommand(topic, name, should.Value))
	}
}
