package dlqcmd

import (
	"context"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/consumer/dlq"
)

func newDropCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	x := settling{verb: "drop", done: "dropped"}
	cmd := &cobra.Command{
		Use: "drop [ID...]", Short: "Settle dead letters without replaying them",
		Long: "Settle the open dead letters that match, or those that are named, without replaying them. They are no longer\n" +
			"listed, and stay on their topic until retention deletes them. To drop all, give --all.",
		Example: "  dispatcher dlq drop --reason expired\n  dispatcher dlq drop --all --dry-run",
	}
	x.define(s, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return x.run(cmd, s, args, *asJSON, func(ctx context.Context, client *dlq.Client, f dlq.Filter) (dlq.Tally, error) {
			return client.Drop(ctx, f, x.dry)
		})
	}
	return cmd
}
