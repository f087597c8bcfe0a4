package cli

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/node"
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
	conn, err := node.KafkaConnection(cfg, Logger(cfg, cmd.ErrOrStderr()))
	return cfg, conn, err
}

// Logger writes to w, with the configured level and format.
func Logger(cfg configs.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Log.Level)) // valid: the configuration was checked
	o := &slog.HandlerOptions{Level: level}
	if cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o)).With("node", node.Name(cfg))
	}
	return slog.New(slog.NewTextHandler(w, o)).With("node", node.Name(cfg))
}
