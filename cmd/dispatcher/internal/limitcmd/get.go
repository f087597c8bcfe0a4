package limitcmd

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/limits"
	"dispatcher/throttle/limit"
)

func newGetCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	var one value
	cmd := &cobra.Command{
		Use: "get NAME", Short: "Show the limit in force, and where the file differs from it", Args: cli.OneName("limit", "NAME"), ValidArgsFunction: s.LimitNames,
		Example: "  dispatcher limit get provider\n  dispatcher limit get recipient --key +46701234567",
	}
	one.flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		of, err := one.of(cmd.Flags())
		if err != nil {
			return flagged(err)
		}
		return connected(s, cmd, args[0], of, func(ctx context.Context, conn limitConn) error {
			now, err := conn.control.Get(ctx)
			if err != nil {
				return err
			}
			return conn.show(ctx, cmd.OutOrStdout(), now, *asJSON, false, nil)
		})
	}
	return cmd
}

// show prints the settings, and the nodes on which they are in force: those that a wait
// has confirmed, or those that know the settings now. Unconfirmed means that a change was
// made a moment ago, without a wait.
func (c limitConn) show(ctx context.Context, w io.Writer, now limit.Settings, asJSON, unconfirmed bool, confirmed *limits.InForce) error {
	d, err := c.Describe(ctx, c.control, c.name, c.value, now)
	if err != nil {
		return err
	}
	if confirmed != nil {
		d.InForce = *confirmed
	}
	if asJSON {
		return cli.PrintJSON(w, d)
	}
	return printed{Document: d, first: c.First(), unconfirmed: unconfirmed}.show(w)
}
