package limitcmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/timetext"
)

func newListCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Show the limits that Redis holds in the namespace", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return connected(s, cmd, "", nil, func(ctx context.Context, conn limitConn) error {
				return conn.list(ctx, cmd.OutOrStdout(), *asJSON)
			})
		},
	}
}

func (c limitConn) list(ctx context.Context, w io.Writer, asJSON bool) error {
	all, err := c.List(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return cli.PrintJSON(w, all)
	}
	if len(all) == 0 {
		return cli.PrintLine(w, "redis holds no limits in namespace "+c.Config.Redis.Namespace)
	}
	table := cli.Table(w)
	_, _ = fmt.Fprintln(table, "NAME\tREVISION\tIN FORCE\tUNTIL")
	for _, one := range all {
		now := one.Settings
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", cli.Plainly(one.Name, 0), now.Revision, cli.Brief(now.Terms, one.Counts), timetext.Stamp(now.RevertAt))
	}
	return table.Flush()
}
