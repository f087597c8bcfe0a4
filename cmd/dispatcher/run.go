package main

import (
	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/node"
	"dispatcher/throttle"
)

func newRunCommand(s *cli.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Work as a node of the fleet",
		Long: "Work as a node of the fleet until SIGINT or SIGTERM. Then the node releases the jobs that wait, awaits\n" +
			"the calls in flight, and commits the last offsets. A second signal ends the process at once.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := s.Load(nil)
			if err != nil {
				return err
			}
			log, level := cli.Logger(cfg, cmd.ErrOrStderr())
			node, err := node.New(cfg, log, throttle.IdentityInfo, node.WithLevel(level))
			if err != nil {
				return err
			}
			calmCollector()
			return node.Run(cmd.Context())
		},
	}
}
