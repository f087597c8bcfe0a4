package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

// The settings of topics that matter here.
const (
	settingBytes     = "max.message.bytes"
	settingCleanup   = "cleanup.policy"
	settingReplicas  = "min.insync.replicas"
	settingRetention = "retention.ms"
	settingSize      = "retention.bytes"
)

// retryRetention is how long at least a retry topic keeps its jobs beyond their
// delay, unless its source topic keeps them for a shorter time.
const retryRetention = 7 * 24 * time.Hour

// setting is the value of a topic's setting.
type setting struct {
	value string
	own   bool // set for this topic, not for the cluster
}

// topicSettings are by name. Those that the cluster does not tell are missing.
type topicSettings map[string]setting

// number of a setting; false: it is not told.
func (s topicSettings) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(s[name].value, 10, 64)
	return n, err == nil
}

// retention is how long records are kept; 0: it is not told.
func (s topicSettings) retention() time.Duration {
	return times(s[settingRetention].value, time.Millisecond)
}

func (s topicSettings) compacted() bool {
	return slices.Contains(strings.Split(strings.ReplaceAll(s[settingCleanup].value, " ", ""), ","), "compact")
}

// configSourceTopic: the setting is the topic's own.
const configSourceTopic = 1

// describeTopics asks for the settings of topics. Of those that this client may
// not see it returns none.
func describeTopics(ctx context.Context, cl *client, topics []string) (map[string]topicSettings, error) {
	req := &kafka.DescribeConfigsRequest{}
	for _, t := range topics {
		req.Resources = append(req.Resources, kafka.DescribeConfigRequestResource{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: t,
			ConfigNames: []string{settingBytes, settingCleanup, settingReplicas, settingRetention, settingSize},
		})
	}
	res, err := cl.DescribeConfigs(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("ask for the settings of topics: %w", err)
	}
	all := make(map[string]topicSettings, len(res.Resources))
	for _, r := range res.Resources {
		if r.Error != nil {
			continue
		}
		s := make(topicSettings, len(r.ConfigEntries))
		for _, e := range r.ConfigEntries {
			s[e.ConfigName] = setting{e.ConfigValue, e.ConfigSource == configSourceTopic}
		}
		all[r.ResourceName] = s
	}
	return all, nil
}

// fitTo takes over how large a topic's batches may be.
func (w *writer) fitTo(topic string, s topicSettings) {
	if n, ok := s.number(settingBytes); ok && n > 0 {
		w.fit(topic, int(min(n, writeMost)))
	}
}

// compactedError says that a topic can't be read for jobs.
type compactedError struct{ topic, value string }

func (e *compactedError) Error() string {
	return fmt.Sprintf("topic %s: %s=%s: compaction would delete jobs that were not sent, those with the key of a later one; mend it with %s",
		e.topic, settingCleanup, e.value, alterCommand(e.topic, settingCleanup, "delete"))
}

// alterCommand is what an operator runs to change a setting.
func alterCommand(topic, name, value string) string {
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server … --alter --entity-type topics --entity-name %s --add-config %s=%s", topic, name, value)
}

// refuseCompacted returns an error for the first topic that jobs are read from
// and whose log is compacted.
func (o *Options) refuseCompacted(all map[string]topicSettings) error {
	for _, t := range o.jobTopics() {
		sources := []string{t}
		for _, tier := range o.RetryTopics {
			sources = append(sources, tierTopic(t, tier))
		}
		for _, s := range sources {
			if all[s].compacted() {
				return &compactedError{s, all[s][settingCleanup].value}
			}
		}
	}
	return nil
}

// derived says what settings a derived topic is created with. Its source's size
// limit and durability are copied where they are the source's own; otherwise the
// cluster's hold for both.
func (o *Options) derived(name, of string, source topicSettings) topicSettings {
	wanted := topicSettings{}
	for _, copied := range []string{settingBytes, settingReplicas} {
		if s := source[copied]; s.own {
			wanted[copied] = s
		}
	}
	if name == resultsTopic(of) {
		return wanted // is for others to keep
	}
	wanted[settingCleanup] = setting{value: "delete"}
	wanted[settingSize] = setting{value: "-1"}
	wanted[settingRetention] = setting{value: "-1"} // an open dead letter does not vanish
	if tier := o.tierOf(name, of); tier > 0 && source.retention() < forever {
		keep := max(source.retention(), retryRetention) + tier
		wanted[settingRetention] = setting{value: strconv.FormatInt(keep.Milliseconds(), 10)}
	}
	return wanted
}

// wrong returns the settings of a derived topic that lose or cut what is written
// to it, and the values they should have.
func (o *Options) wrong(name, of string, source, is topicSettings) topicSettings {
	bad := topicSettings{}
	should := o.derived(name, of, source)
	if s, ok := source.number(settingBytes); ok {
		if n, told := is.number(settingBytes); told && n < s {
			bad[settingBytes] = setting{value: source[settingBytes].value}
		}
	}
	if _, matters := should[settingCleanup]; !matters {
		return bad
	}
	if is.compacted() {
		bad[settingCleanup] = should[settingCleanup]
	}
	if n, told := is.number(settingSize); told && n >= 0 {
		bad[settingSize] = should[settingSize]
	}
	least := forever
	if tier := o.tierOf(name, of); tier > 0 {
		least = min(source.retention(), retryRetention) + tier
	}
	if kept := is.retention(); kept > 0 && kept < least {
		bad[settingRetention] = should[settingRetention]
	}
	return bad
}

// tierOf is the delay of a retry topic; 0: it is none.
func (o *Options) tierOf(name, of string) time.Duration {
	for _, tier := range o.RetryTopics {
		if name == tierTopic(of, tier) {
			return tier
		}
	}
	return 0
}

// reviewTopics takes the settings of the topics in: it refuses sources that are
// compacted, warns of derived topics that can't hold what they are for, and tells
// the writer how large their batches may be.
func (c *Consumer) reviewTopics(ctx context.Context, there []string) (map[string]topicSettings, error) {
	all, err := describeTopics(ctx, c.client, there)
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
		for _, name := range c.opts.companionsOf(of) {
			if is, ok := all[name]; ok {
				c.warnOfSettings(name, c.opts.wrong(name, of, all[of], is), is)
			}
		}
	}
	return all, nil
}

// warnOfSettings says once what is wrong with a derived topic.
func (c *Consumer) warnOfSettings(topic string, wrong, is topicSettings) {
	if len(wrong) == 0 || c.warned[topic] {
		return
	}
	c.warned[topic] = true
	for name, should := range wrong {
		c.opts.Logger.Warn("a derived topic may cut or lose what is written to it",
			"topic", topic, "setting", name, "value", is[name].value, "mend", alterCommand(topic, name, should.value))
	}
}
