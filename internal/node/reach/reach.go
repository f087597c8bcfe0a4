package reach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/node"
	"dispatcher/sender"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// Server is the reply of one of the servers of a configuration.
type Server struct {
	Name    string // kafka, redis or provider
	Address string
	Said    string // if it answered
	Err     error  // why it did not; nil: it answered
}

const timeout = 5 * time.Second

// Servers connects to the servers of a valid configuration, with its credentials and
// certificates. It sends no job, makes no call to the provider and changes nothing.
func Servers(ctx context.Context, cfg configs.Config) []Server {
	all := []Server{ask(ctx, "kafka", strings.Join(cfg.Kafka.Brokers, ","), func(ctx context.Context) (string, error) { return kafka(ctx, cfg) })}
	if cfg.Limits[0].Scope != limit.ScopeNode {
		all = append(all, ask(ctx, "redis", strings.Join(cfg.Redis.Addrs, ","), func(ctx context.Context) (string, error) { return redis(ctx, cfg) }))
	}
	provider, err := sender.New(sender.Options{Config: cfg.Sender.HTTP})
	if err != nil {
		return append(all, Server{Name: "provider", Err: fmt.Errorf("sender.http: %w", err)})
	}
	defer provider.Close()
	return append(all, ask(ctx, "provider", provider.Address(), func(ctx context.Context) (string, error) {
		trip, err := provider.Reach(ctx)
		said := "a connection was opened, TLS included; nothing was sent"
		if trip > 0 {
			said += fmt.Sprintf("; round trip %s", trip)
		}
		return said, err
	}))
}

func ask(ctx context.Context, name, address string, question func(context.Context) (string, error)) Server {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	said, err := question(ctx)
	if err != nil {
		said = ""
	}
	return Server{Name: name, Address: address, Said: said, Err: err}
}

func kafka(ctx context.Context, cfg configs.Config) (string, error) {
	conn, err := node.KafkaConnection(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	topics := cfg.Kafka.JobTopics()
	partitions, err := consumer.Reach(ctx, conn, topics)
	if err != nil {
		return "", err
	}
	all := 0
	for _, n := range partitions {
		all += n
	}
	return fmt.Sprintf("topics %s have %d partitions", strings.Join(topics, ", "), all), nil
}

func redis(ctx context.Context, cfg configs.Config) (string, error) {
	rdb, err := node.RedisClient(cfg, slog.New(slog.DiscardHandler), 0)
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
