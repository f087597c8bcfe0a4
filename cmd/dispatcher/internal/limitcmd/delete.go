package limitcmd

import (
	"context"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
)

func newDeleteCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Remove a limit that no node uses any more from Redis", Args: cli.OneName("limit", "NAME"), ValidArgsFunction: s.LimitNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return connected(s, cmd, args[0], nil, func(ctx context.Context, conn limitConn) error {
				if err := conn.control.Delete(ctx); err != nil {
					return err
				}
				if *asJSON {
					return cli.PrintJSON(cmd.OutOrStdout(), map[string]string{"deleted": conn.name})
				}
				return cli.PrintLine(cmd.OutOrStdout(), "limit "+conn.name+": deleted")
			})
		},
	}
}
