package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/wait"

	"github.com/segmentio/kafka-go"
)

// prepare waits for a broker, and checks the topics before any group is joined: one missing
// topic would leave the members without any partition and without an error. It returns nil
// when ctx ends.
func (c *Consumer) prepare(ctx context.Context) error {
	check := topicCheck{o: &c.opts, client: c.client, fit: c.settler.Fit, log: c.opts.Logger, warned: make(map[string]bool)}
	for n := 0; ctx.Err() == nil; n++ {
		err := check.run(ctx)
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

// topicCheck checks the topics of a consumer, and creates missing derived topics. It is run
// until it succeeds.
type topicCheck struct {
	o      *Options
	client *broker.Client
	fit    func(topic string, is broker.TopicSettings) // fits the writer's batches to a topic
	log    *slog.Logger
	warned map[string]bool // derived topics whose settings were warned of
}

func (k *topicCheck) run(ctx context.Context) error {
	if err := k.client.Ping(ctx); err != nil {
		return err
	}
	topics, all := k.o.jobTopics(), k.o.allTopics()
	layout, err := broker.RequireTopics(ctx, &k.o.Connection, all, topics)
	if err != nil {
		return err
	}
	settings, err := k.checkSettings(ctx, slices.Sorted(maps.Keys(layout)))
	if err != nil {
		return err
	}
	created := false
	for _, of := range topics {
		for _, derived := range k.o.derivedTopics(of) {
			if _, ok := layout[derived]; ok {
				k.fit(derived, settings[derived])
				continue
			}
			k.fit(derived, settings[of])
			if !k.o.CreateTopics {
				return &broker.MissingTopicError{Topic: derived, Hint: "create it, or set kafka.create_topics"}
			}
			if err := k.create(ctx, derived, layout[of], k.o.derivedSettings(derived, of, settings[of])); err != nil {
				return err
			}
			created = true
		}
	}
	k.warnOfUnreadRetryTopics(ctx)
	if created && (len(k.o.RetryTopics) > 0 || k.o.Results) {
		return k.awaitCreated(ctx, all)
	}
	return nil
}

// warnOfUnreadRetryTopics warns of retry topics whose delay was taken out of the settings:
// no node sends the jobs that are left there.
func (k *topicCheck) warnOfUnreadRetryTopics(ctx context.Context) {
	layout, err := broker.Topics(ctx, &k.o.Connection, nil)
	if err != nil {
		k.log.Debug("could not list the topics", "error", err)
		return
	}
	all := k.o.allTopics()
	for _, of := range k.o.jobTopics() {
		for name := range layout {
			if topicname.IsRetryOf(of, name) && !slices.Contains(all, name) {
				k.log.Warn("a retry topic is not in kafka.retry_topics, the jobs left in it are not sent", "topic", name)
			}
		}
	}
}

// awaitCreated returns nil once the cluster knows topics that were just created. A member
// that joins before gets no partitions for some seconds; a result that is written before waits.
func (k *topicCheck) awaitCreated(ctx context.Context, topics []string) error {
	_, err := broker.RequireTopics(ctx, &k.o.Connection, topics, topics)
	if missing, ok := errors.AsType[*broker.MissingTopicError](err); ok {
		return fmt.Errorf("topic %s was created and is not known yet", missing.Topic) // no MissingTopicError, so prepare tries again
	}
	return err
}

// create creates a derived topic with as many partitions and replicas as its source has, so
// that a key keeps its partition.
func (k *topicCheck) create(ctx context.Context, name string, source kafka.Topic, with broker.TopicSettings) error {
	topic := kafka.TopicConfig{Topic: name, NumPartitions: len(source.Partitions), ReplicationFactor: len(source.Partitions[0].Replicas)}
	for _, setting := range slices.Sorted(maps.Keys(with)) {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: setting, ConfigValue: with[setting].Value})
	}
	res, err := k.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	if err == nil {
		err = res.Errors[name]
	}
	switch {
	case errors.Is(err, kafka.TopicAlreadyExists): // another node was faster
		return nil
	case err != nil:
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	k.log.Info("derived topic created", "topic", name)
	return nil
}

// Retentions returns for how long the brokers keep the offsets of a group without members, and for how long each topic
// that nodes read keeps its records; for a retry topic, beyond its delay. What the cluster does not show is 0 or
// missing; 0 is also a topic that keeps its records for less than its delay.
func Retentions(ctx context.Context, conn broker.Connection, o Options) (offsets time.Duration, records map[string]time.Duration, err error) {
	jobs := o.jobTopics()
	delays := map[string]time.Duration{} // of the topics that nodes read
	for _, of := range jobs {
		for _, name := range o.sourceTopics(of) {
			delays[name] = o.retryDelay(name, of)
		}
	}
	read := slices.Sorted(maps.Keys(delays))
	cl, err := broker.NewClient(&conn, read)
	if err != nil {
		return 0, nil, err
	}
	defer cl.Close()
	layout, err := broker.RequireTopics(ctx, &conn, jobs, jobs)
	if err != nil {
		return 0, nil, err
	}
	offsets, err = broker.OffsetsRetention(ctx, cl, layout[jobs[0]].Partitions[0].Leader.ID)
	var settings map[string]broker.TopicSettings
	if err == nil {
		settings, err = broker.DescribeTopics(ctx, cl, read)
	}
	if _, answered := errors.AsType[kafka.Error](err); answered { // it may not read settings
		return 0, nil, nil
	}
	records = make(map[string]time.Duration, len(settings))
	for name, s := range settings {
		if records[name] = s.Retention(); records[name] < broker.Forever {
			records[name] = max(records[name]-delays[name], 0)
		}
	}
	return offsets, records, err
}

// Reach connects to the brokers, and returns how many partitions each of the topics has. A
// topic that does not exist is an error.
func Reach(ctx context.Context, conn broker.Connection, topics []string) (partitions map[string]int, err error) {
	cl, err := broker.NewClient(&conn, topics)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	if err := cl.Ping(ctx); err != nil { // kafka-go's transport would not say why it can't log in
		return nil, err
	}
	layout, err := broker.RequireTopics(ctx, &conn, topics, topics)
	partitions = make(map[string]int, len(layout))
	for name, t := range layout {
		partitions[name] = len(t.Partitions)
	}
	return partitions, err
}
