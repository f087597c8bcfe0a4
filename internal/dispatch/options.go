package dispatch

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// This file maps the configuration to the rooms' own options.

// NodeName is the configured name, or the host's.
func NodeName(cfg configs.Config) string {
	if cfg.Node != "" {
		return cfg.Node
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		return host
	}
	return "node"
}

// RedisClient connects to the Redis of the configuration, lazily.
func RedisClient(cfg configs.Config) (redis.UniversalClient, error) {
	tls, err := cfg.Redis.TLS.Build()
	if err != nil {
		return nil, fmt.Errorf("redis.tls.%w", err)
	}
	return throttle.NewClient(throttle.ClientOptions{
		Addrs: cfg.Redis.Addrs, Master: cfg.Redis.Master, Cluster: cfg.Redis.Cluster,
		Username: cfg.Redis.Username, Password: cfg.Redis.Password,
		SentinelUsername: cfg.Redis.SentinelUsername, SentinelPassword: cfg.Redis.SentinelPassword,
		TLS: tls, Name: "dispatcher",
	}), nil
}

// KafkaConnection is how to reach the brokers of the configuration.
func KafkaConnection(cfg configs.Config) (consumer.Connection, error) {
	tls, err := cfg.Kafka.TLS.Build()
	if err != nil {
		return consumer.Connection{}, fmt.Errorf("kafka.tls.%w", err)
	}
	c := consumer.Connection{Brokers: cfg.Kafka.Brokers, ClientID: "dispatcher-" + NodeName(cfg), TLS: tls}
	if cfg.Kafka.SASL.Mechanism != "" {
		c.SASL = &consumer.SASL{
			Mechanism: cfg.Kafka.SASL.Mechanism, Username: cfg.Kafka.SASL.Username, Password: cfg.Kafka.SASL.Password,
		}
	}
	return c, nil
}

func consumerOptions(cfg configs.Config, log *slog.Logger, reg prometheus.Registerer) (consumer.Options, error) {
	conn, err := KafkaConnection(cfg)
	if err != nil {
		return consumer.Options{}, err
	}
	k := cfg.Kafka
	tiers, err := k.Tiers()
	if err != nil {
		return consumer.Options{}, err
	}
	var lanes []consumer.Lane
	for _, l := range k.Lanes {
		lanes = append(lanes, consumer.Lane(l))
	}
	return consumer.Options{
		Connection: conn, Group: k.Group, Topics: k.Topics, Lanes: lanes, Node: NodeName(cfg),
		Order: consumer.Order(k.Order), RetryTiers: tiers, HeadTimeout: k.HeadTimeout, InHand: k.Workers, MaxAsleep: k.MaxAsleep, MaxAsleepBytes: k.MaxAsleepBytes, MaxJobBytes: k.MaxJobBytes,
		CommitInterval: k.CommitInterval, Heartbeat: k.Heartbeat, Session: k.Session, Drain: k.Drain,
		CreateCompanions: k.CreateCompanions, Results: k.Results, ParkUnknown: cfg.Sender.OnUnknown == configs.UnknownPark, StartAt: consumer.StartAt(k.StartAt), OutOfRange: consumer.OutOfRange(k.OutOfRange),
		Logger: log, Registerer: reg,
	}, nil
}

func senderOptions(cfg configs.Config, log *slog.Logger, reg prometheus.Registerer) (sender.HTTPOptions, error) {
	h := cfg.Sender.HTTP
	tls, err := h.TLS.Build()
	if err != nil {
		return sender.HTTPOptions{}, fmt.Errorf("sender.http.tls.%w", err)
	}
	return sender.HTTPOptions{
		URL: h.URL, Method: h.Method, Timeout: h.Timeout, DialTimeout: h.DialTimeout, IdleTimeout: h.IdleTimeout,
		Headers: h.Headers, TLS: tls, MaxResponseBytes: int64(h.MaxResponseBytes),
		MessageID: h.MessageID, CloudEvents: sender.EventMode(h.CloudEvents),
		Logger: log, Registerer: reg,
	}, nil
}
