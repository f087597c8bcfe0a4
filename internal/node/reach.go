package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/sender"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// Reached is the reply of one of the servers of a configuration.
type Reached struct {
	Name    string // kafka, redis or provider
	Address string
	Said    string // if it answered
	Err     error  // why it did not; nil: it answered
}

const reachTimeout = 5 * time.Second

// Reach connects to the servers of a valid configuration, with its credentials and
// certificates. It sends no job, makes no call to the provider and changes nothing.
func Reach(ctx context.Context, cfg configs.Config) []Reached {
	all := []Reached{reach(ctx, "kafka", strings.Join(cfg.Kafka.Brokers, ","), func(ctx context.Context) (string, error) { return reachKafka(ctx, cfg) })}
	if cfg.Limits[0].Scope != limit.ScopeNode {
		all = append(all, reach(ctx, "redis", strings.Join(cfg.Redis.Addrs, ","), func(ctx context.Context) (string, error) { return reachRedis(ctx, cfg) }))
	}
	provider, err := sender.New(sender.Options{Config: cfg.Sender.HTTP})
	if err != nil {
		return append(all, Reached{Name: "provider", Err: fmt.Errorf("sender.http: %w", err)})
	}
	defer provider.Close()
	return append(all, reach(ctx, "provider", provider.Address(), func(ctx context.Context) (string, error) {
		trip, err := provider.Reach(ctx)
		said := "a connection was opened, TLS included; nothing was sent"
		if trip > 0 {
			said += fmt.Sprintf("; round trip %s", trip)
		}
		return said, err
	}))
}

func reach(ctx context.Context, name, address string, ask func(context.Context) (string, error)) Reached {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	said, err := ask(ctx)
	if err != nil {
		said = ""
	}
	return Reached{Name: name, Address: address, Said: said, Err: err}
}

func reachKafka(ctx context.Context, cfg configs.Config) (string, error) {
	conn, err := KafkaConnection(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	topics := cfg.Kafka.JobTopics()
	partitions, err := consumer.Reach(ctx, conn, topics)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("topics %s have %d partitions", strings.Join(topics, ", "), partitions), nil
}

func reachRedis(ctx context.Context, cfg configs.Config) (string, error) {
	rdb, err := RedisClient(cfg, slog.New(slog.DiscardHandler), 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = rdb.Close() }() // nothing is under way that its error could concern
	operator, err := control.NewControl(rdb, cfg.Redis.Namespace, cfg.Limits[0].Name)
	if err != nil {
		return "", err
	}
	s, err := operator.Get(ctx)
	switch {
	case errors.Is(err, control.ErrUnknownLimit):
		return fmt.Sprintf("does not know limit %s yet; the first node seeds it", cfg.Limits[0].Name), nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("limit %s: %s", cfg.Limits[0].Name, s.Terms), nil
}
