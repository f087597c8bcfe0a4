package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/limits"
	"dispatcher/internal/loglevel"
	"dispatcher/internal/node"
	"dispatcher/throttle/limit"
)

// Settings reads the configuration for every subcommand, from the sources that the
// flags name.
type Settings struct{ configs.Source }

// Load reads and checks the settings. If node is not nil, it checks them further, as
// a node does.
func (s *Settings) Load(node func(configs.Config) error) (configs.Config, error) {
	cfg, err := configs.Check(s.Source, node)
	if err != nil {
		return configs.Config{}, fmt.Errorf("config:\n%w", err)
	}
	return cfg, nil
}

// Manage is [Settings.Load] for a command that does not call the provider, and needs none of its
// secrets.
func (s *Settings) Manage(node func(configs.Config) error) (configs.Config, error) {
	without := *s
	without.CallsNobody = true
	return without.Load(node)
}

// Kafka reads the settings and makes the connection of a command that works with
// topics. It connects to nothing yet.
func (s *Settings) Kafka(cmd *cobra.Command) (configs.Config, consumer.Connection, error) {
	cfg, err := s.Manage(nil)
	if err != nil {
		return cfg, consumer.Connection{}, err
	}
	log, _ := Logger(cfg, cmd.ErrOrStderr())
	conn, err := node.KafkaConnection(cfg, log)
	return cfg, conn, err
}

// ErrNoRedis says that the nodes share nothing. A command that has a better remedy returns an error of its own.
var ErrNoRedis = errors.New("each node keeps a limit of its own (limits.0.scope: node), so there is no Redis to ask: look at /readyz and the log of each node")

// Redis reads the settings and makes a reader of the fleet's limits, for a command that asks Redis. It connects to nothing yet.
// The caller calls closed in the end. It returns [ErrNoRedis] where the fleet has none.
func (s *Settings) Redis(cmd *cobra.Command, timeout time.Duration) (r limits.Reader, closed func(), err error) {
	return s.redis(cmd.ErrOrStderr(), timeout)
}

func (s *Settings) redis(log io.Writer, timeout time.Duration) (r limits.Reader, closed func(), err error) {
	cfg, err := s.Manage(nil)
	if err != nil {
		return r, nil, err
	}
	if cfg.Limits[0].Scope == limit.ScopeNode {
		return r, nil, ErrNoRedis
	}
	logger, _ := Logger(cfg, log)
	rdb, err := node.RedisClient(cfg, logger, timeout)
	if err != nil {
		return r, nil, err
	}
	return limits.NewReader(cfg, rdb), func() { _ = rdb.Close() }, nil // nothing is under way that its error could concern
}

// Logger writes to w, with the configured format. The level is the configured one until it is changed.
func Logger(cfg configs.Config, w io.Writer) (*slog.Logger, *loglevel.Level) {
	usual, _ := loglevel.Named(cfg.Log.Level) // valid: the configuration was checked
	level := loglevel.New(usual)
	o := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(w, o)
	if cfg.Log.Format == "json" {
		handler = slog.NewJSONHandler(w, o)
	}
	return slog.New(handler).With("node", node.Name(cfg)), level
}
