package main

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"dispatcher/configs"
	"dispatcher/internal/dispatch"
	"dispatcher/throttle"
)

func newRunCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Work as a node of the fleet",
		Long: "Work as a node of the fleet until SIGINT or SIGTERM. Then jobs that wait are given back, calls on\n" +
			"the wire are awaited, and the last offsets are committed. A second signal ends at once.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := s.load()
			if err != nil {
				return err
			}
			node, err := dispatch.New(cfg, newLogger(cfg, cmd.ErrOrStderr()), throttle.IdentityInfo)
			if err != nil {
				return err
			}
			return node.Run(cmd.Context())
		},
	}
}

// newLogger writes to w as the configuration says.
func newLogger(cfg configs.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Log.Level)) // valid: the configuration was checked
	o := &slog.HandlerOptions{Level: level}
	if cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o)).With("node", dispatch.NodeName(cfg))
	}
	return slog.New(slog.NewTextHandler(w, o)).With("node", dispatch.NodeName(cfg))
}
