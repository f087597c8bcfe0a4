package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newLimitDeleteCommand(s *settings, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Remove a limit that no node uses any more from Redis", Args: oneName("limit", "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.connected(cmd, args[0], func(ctx context.Context, conn limitConn) error {
				if err := conn.control.Delete(ctx); err != nil {
					return err
				}
				if *asJSON {
					return printJSON(cmd.OutOrStdout(), map[string]string{"deleted": conn.name})
				}
				return printLine(cmd.OutOrStdout(), "limit "+conn.name+": deleted")
			})
		},
	}
}
