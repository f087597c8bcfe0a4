package node

import (
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle/limit"
)

// This file maps the configuration to the packages' own options.

// Name is the configured name, or the host's.
func Name(cfg configs.Config) string {
	if cfg.Node != "" {
		return cfg.Node
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		return host
	}
	return "node"
}

// RedisClient connects to the Redis of the configuration, lazily. An answer may take the
// timeout given; 0: as long as suits a node. The log says when a file can't be read again.
func RedisClient(cfg configs.Config, log *slog.Logger, timeout time.Duration) (redis.UniversalClient, error) {
	r := cfg.Redis
	dial, err := dialOf("redis.tls", r.TLS, log)
	if err != nil {
		return nil, err
	}
	return redisclient.New(redisclient.Options{
		Addrs: r.Addrs, Master: r.Master, Cluster: r.Cluster,
		Login:            accountOf(cfg, log, "redis", r.Username, r.Password),
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword,
		Dial: dial, Name: "dispatcher", Timeout: timeout,
	}), nil
}

// KafkaConnection is how to reach the brokers of the configuration. The log says
// when a file can't be read again.
func KafkaConnection(cfg configs.Config, log *slog.Logger) (consumer.Connection, error) {
	dial, err := dialOf("kafka.tls", cfg.Kafka.TLS, log)
	if err != nil {
		return consumer.Connection{}, err
	}
	account, err := saslOf(cfg, log)
	if err != nil {
		return consumer.Connection{}, err
	}
	conn := cfg.Kafka.Connection
	conn.ClientID, conn.SASL, conn.Dial = "dispatcher-"+Name(cfg), account, dial
	return conn, nil
}

// minShares are those of all lanes; none where jobs have no lanes.
func minShares(cfg configs.Config) (shares []float64) {
	for _, l := range cfg.Kafka.Lanes {
		shares = append(shares, l.MinShare)
	}
	return shares
}

// slotTime is for how long a node that gives partitions up still calls jobs that have slots: no slot of the fleet lies further ahead.
// The drain is longer than the longest call. What it is longer is shared: a call that begins late has to be settled as well.
func slotTime(cfg configs.Config) time.Duration {
	return max(0, min(limit.MaxHorizon, (cfg.Kafka.Drain-cfg.Sender.HTTP.Timeout)/2))
}

func consumerOptions(cfg configs.Config, log *slog.Logger, reg prometheus.Registerer) (consumer.Options, error) {
	conn, err := KafkaConnection(cfg, log)
	if err != nil {
		return consumer.Options{}, err
	}
	o := cfg.Kafka.Options
	o.Connection, o.Node, o.ParkUnknown = conn, Name(cfg), cfg.Sender.OnUnknown == configs.UnknownPark
	o.IgnoreCost = cfg.Cost != ""
	o.SlotTime = slotTime(cfg)
	o.Logger, o.Registerer = log, reg
	return o, nil
}
