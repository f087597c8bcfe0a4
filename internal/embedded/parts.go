package embedded

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/twmb/franz-go/pkg/kfake"

	"dispatcher/configs"
	"dispatcher/internal/provider"
)

// Options of [New]. Zero fields have a default.
type Options struct {
	MoreTopics []string // beside jobs, for lanes
	Partitions int      // of each; default 12
	Provider   provider.Options
	File       string // path of the nodes' configuration; empty: none
}

// Parts are the embedded servers.
type Parts struct {
	Provider *provider.Provider
	topics   []string
	file     string
	kafka    *kfake.Cluster
	redis    *miniredis.Miniredis
}

// Topic is that of the jobs, beside [Options].MoreTopics.
const Topic = "jobs"

const group = "dispatcher" // prefix of the groups

// New starts a Kafka with the topics, and a Redis. [Parts.Run] starts the provider.
func New(o Options) (*Parts, error) {
	o.Partitions = cmp.Or(o.Partitions, 12)
	topics := append(slices.Clone(o.MoreTopics), Topic)
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(int32(o.Partitions), topics...), //nolint:gosec // a small number
		kfake.GroupMinSessionTimeout(100*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("embedded kafka: %w", err)
	}
	redis, err := miniredis.Run()
	if err != nil {
		kafka.Close()
		return nil, fmt.Errorf("embedded redis: %w", err)
	}
	return &Parts{Provider: provider.New(o.Provider), topics: topics, file: o.File, kafka: kafka, redis: redis}, nil
}

// Run serves until ctx ends, then closes all parts.
func (p *Parts) Run(ctx context.Context) error {
	defer p.kafka.Close()
	defer p.redis.Close()
	return p.Provider.Run(ctx)
}

// Brokers are the addresses of the embedded Kafka.
func (p *Parts) Brokers() []string { return p.kafka.ListenAddrs() }

// RedisAddr is the address of the embedded Redis.
func (p *Parts) RedisAddr() string { return p.redis.Addr() }

// RedisFails has the embedded Redis answer every command with this error; empty: as
// usual.
func (p *Parts) RedisFails(why string) { p.redis.SetError(why) }

// Settings point a configuration at the parts, as --set would.
func (p *Parts) Settings() []string {
	return []string{
		"kafka.brokers=" + p.Brokers()[0],
		"kafka.topics=" + Topic,
		"kafka.group=" + group,
		"redis.addrs=" + p.RedisAddr(),
		"sender.http.url=http://" + p.Provider.Addr() + "/send",
	}
}

// Config is the default configuration, pointed at the parts, with settings on
// top.
func (p *Parts) Config(settings ...string) (configs.Config, error) {
	return configs.Load(configs.Source{File: p.file, Set: append(p.Settings(), settings...)})
}

// Backlog is how many jobs the topics hold, and how many of them the groups have
// settled and committed.
func (p *Parts) Backlog() (jobs, settled int64) {
	for _, topic := range p.topics {
		j, s := p.BacklogOf(topic)
		jobs, settled = jobs+j, settled+s
	}
	return jobs, settled
}

// BacklogOf is the same for one topic.
func (p *Parts) BacklogOf(topic string) (jobs, settled int64) {
	committed := p.kafka.GroupInfo(group + "." + topic)
	for _, info := range p.kafka.PartitionInfos(topic) {
		jobs += info.HighWatermark
		if committed != nil {
			settled += max(0, committed.Commits[topic][info.Partition].Offset)
		}
	}
	return jobs, settled
}

// Dead is how many jobs were dead-lettered.
func (p *Parts) Dead() int64 { return p.recordsBeside(".dlq") }

// Parked is how many jobs were parked.
func (p *Parts) Parked() int64 { return p.recordsBeside(".parked") }

// recordsBeside counts the records of the topics with this suffix.
func (p *Parts) recordsBeside(suffix string) (n int64) {
	for _, topic := range p.topics {
		for _, info := range p.kafka.PartitionInfos(topic + suffix) {
			n += info.HighWatermark
		}
	}
	return n
}
