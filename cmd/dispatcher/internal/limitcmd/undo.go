package limitcmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

func newUndoCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	var (
		h  how
		to int64
	)
	cmd := &cobra.Command{
		Use: "undo NAME", Short: "Take back the last change; each further undo takes back the one before", Args: cli.OneName("limit", "NAME"), ValidArgsFunction: s.LimitNames,
		Example: "  dispatcher limit undo provider\n  dispatcher limit undo provider --to 7",
	}
	cmd.Flags().Int64Var(&to, "to", 0, "`revision` to return to, from limit history (default: the one before the last change)")
	h.flags(cmd.Flags())
	h.force(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("to") && to < 1 {
			return fmt.Errorf("limit undo: --to %d: must be at least 1; nothing was changed", to)
		}
		return change(s, cmd, args[0], *asJSON, h, func(c *control.Control, ctx context.Context, ch control.Change) (limit.Settings, error) {
			return c.Undo(ctx, to, ch)
		})
	}
	return cmd
}
