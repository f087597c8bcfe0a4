package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"dispatcher/consumer/internal/broker"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/wait"

	"github.com/segmentio/kafka-go"
)

// prepare waits for a broker, and checks the topics before any group is
// joined: one missing topic would leave the members without any partition and
// without an error. It returns nil when ctx ends.
func (c *Consumer) prepare(ctx context.Context) error {
	for n := 0; ctx.Err() == nil; n++ {
		err := c.checkTopics(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the caller ended the run; what failed by that is no error
		}
		_, missing := errors.AsType[*broker.MissingTopicError](err)
		if _, compacted := errors.AsType[*compactedError](err); err == nil || missing || compacted || broker.Permanent(err) {
			return err
		}
		c.health.Failed(err)
		c.opts.Logger.Warn("kafka is not ready, trying again", "error", err)
		wait.For(ctx, wait.Backoff(n, 250*time.Millisecond, 5*time.Second))
	}
	return nil
}

func (c *Consumer) checkTopics(ctx context.Context) error {
	if err := c.client.Ping(ctx); err != nil {
		return err
	}
	topics, all := c.opts.jobTopics(), c.opts.allTopics()
	layout, err := broker.RequireTopics(ctx, &c.opts.Connection, all, topics)
	if err != nil {
		return err
	}
	settings, err := c.reviewTopics(ctx, slices.Sorted(maps.Keys(layout)))
	if err != nil {
		return err
	}
	created := false
	for _, t := range topics {
		for _, companion := range c.opts.derivedTopics(t) {
			if _, ok := layout[companion]; ok {
				c.writer.UseSettings(companion, settings[companion])
				continue
			}
			c.writer.UseSettings(companion, settings[t])
			if !c.opts.CreateTopics {
				return &broker.MissingTopicError{Topic: companion, Hint: "create it, or let companions be created"}
			}
			if err := c.createCompanion(ctx, companion, layout[t], c.opts.derived(companion, t, settings[t])); err != nil {
				return err
			}
			created = true
		}
	}
	c.warnOfStranded(ctx)
	if created && (len(c.opts.RetryTopics) > 0 || c.opts.Results) {
		return c.known(ctx, all)
	}
	return nil
}

// warnOfStranded tells of tiers that nobody reads any more since their delay was
// taken out of the settings: jobs may wait there for ever.
func (c *Consumer) warnOfStranded(ctx context.Context) {
	layout, err := broker.Topics(ctx, &c.opts.Connection, nil)
	if err != nil {
		c.opts.Logger.Debug("could not list the topics", "error", err)
		return
	}
	all := c.opts.allTopics()
	for _, of := range c.opts.jobTopics() {
		for name := range layout {
			if topicname.IsRetryOf(of, name) && !slices.Contains(all, name) {
				c.opts.Logger.Warn("a retry tier is not among retry_topics, jobs that are left in it are not sent", "topic", name)
			}
		}
	}
}

// known returns nil once the cluster knows topics that were just created. A group
// that is joined before gets no partitions, and never any later; a result that is
// written before waits.
func (c *Consumer) known(ctx context.Context, topics []string) error {
	_, err := broker.RequireTopics(ctx, &c.opts.Connection, topics, topics)
	if missing, ok := errors.AsType[*broker.MissingTopicError](err); ok {
		return fmt.Errorf("topic %s was created and is not known yet", missing.Topic) // and so is asked for again
	}
	return err
}

// Reach connects to the brokers, and returns how many partitions the topics have
// together. A topic that does not exist is an error.
func Reach(ctx context.Context, conn broker.Connection, topics []string) (partitions int, err error) {
	cl, err := broker.NewClient(&conn, topics)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil { // kafka-go's transport would not say why it can't log in
		return 0, err
	}
	layout, err := broker.RequireTopics(ctx, &conn, topics, topics)
	for _, t := range layout {
		partitions += len(t.Partitions)
	}
	return partitions, err
}

// createCompanion gives a companion as many partitions and replicas as the topic
// has, so that a key keeps its partition.
func (c *Consumer) createCompanion(ctx context.Context, name string, like kafka.Topic, with broker.TopicSettings) error {
	topic := kafka.TopicConfig{Topic: name, NumPartitions: len(like.Partitions), ReplicationFactor: len(like.Partitions[0].Replicas)}
	for _, setting := range slices.Sorted(maps.Keys(with)) {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: setting, ConfigValue: with[setting].Value})
	}
	res, err := c.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err == nil {
		err = res.Errors[name]
	}
	// Another node may have been faster.
	if err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	c.opts.Logger.Info("companion topic is there", "topic", name)
	return nil
}
