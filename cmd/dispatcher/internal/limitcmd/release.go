package limitcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/limits"
	"dispatcher/throttle/control"
)

func newReleaseCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	var h how
	var one value
	cmd := &cobra.Command{
		Use: "release NAME", Short: "End a block or a slowdown that follows from the provider's answers", Args: cli.OneName("limit", "NAME"), ValidArgsFunction: s.LimitNames,
		Long: "End a block or a slowdown that follows from the provider's answers. The cap is in force at once.\n" +
			"If the provider goes on to refuse calls, the fleet slows down again within seconds.\n" +
			"Of a limit after the first, end the block of one value of its key. Its jobs are asked for again within 5 s.",
		Example: "  dispatcher limit release provider --why \"the provider has raised our quota\"\n" +
			"  dispatcher limit release recipient --key +46701234567",
	}
	one.flags(cmd.Flags())
	h.signature(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := h.ready(cmd.Flags()); err != nil {
			return err
		}
		of, err := one.of(cmd.Flags())
		if err != nil {
			return flagged(err)
		}
		return connected(s, cmd, args[0], of, func(ctx context.Context, conn limitConn) error {
			err := conn.Release(ctx, conn.name, of, h.change.By, h.change.Why)
			released := err == nil
			switch {
			case errors.Is(err, control.ErrNotSlowed):
				cmd.PrintErrln(err)
			case errors.Is(err, limits.ErrWhichValue):
				return errors.New("limit release: name the value: give --key or --hash; nothing was changed")
			case err != nil:
				return err
			}
			now, err := conn.control.Get(ctx)
			if err == nil {
				err = conn.show(ctx, cmd.OutOrStdout(), now, *asJSON, false, nil)
			}
			if err != nil && released {
				return fmt.Errorf("limit %q is released, but could not be shown: %w", conn.name, err)
			}
			return err
		})
	}
	return cmd
}
