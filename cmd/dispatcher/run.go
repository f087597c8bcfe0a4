package main

import (
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"dispatcher/configs"
	"dispatcher/internal/node"
	"dispatcher/throttle"
)

func newRunCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Work as a node of the fleet",
		Long: "Work as a node of the fleet until SIGINT or SIGTERM. Then the node releases the jobs that wait, awaits\n" +
			"the calls in flight, and commits the last offsets. A second signal ends the process at once.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := s.load(nil)
			if err != nil {
				return err
			}
			node, err := node.New(cfg, newLogger(cfg, cmd.ErrOrStderr()), throttle.IdentityInfo)
			if err != nil {
				return err
			}
			calmCollector()
			return node.Run(cmd.Context())
		},
	}
}

// calmCollector lets the heap grow to five times the live heap before it is
// collected. A node's live heap is a few MiB, and the garbage of its calls would
// start dozens of collections a second. GOGC overrides it.
func calmCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// newLogger writes to w, with the configured level and format.
func newLogger(cfg configs.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Log.Level)) // valid: the configuration was checked
	o := &slog.HandlerOptions{Level: level}
	if cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o)).With("node", node.Name(cfg))
	}
	return slog.New(slog.NewTextHandler(w, o)).With("node", node.Name(cfg))
}
