package limitcmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/throttle/control"
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

// listed is one limit of the list, without its terms.
type listed struct {
	Name     string `json:"name"`
	Revision int64  `json:"revision"`
	RevertAt string `json:"revert_at,omitempty"`
	counts
}

func (c limitConn) list(ctx context.Context, w io.Writer, asJSON bool) error {
	names, err := control.Limits(ctx, c.rdb, c.cfg.Redis.Namespace)
	if err != nil {
		return err
	}
	all := make([]any, 0, len(names))
	table := cli.Table(w)
	_, _ = fmt.Fprintln(table, "NAME\tREVISION\tIN FORCE\tUNTIL")
	for _, name := range names {
		operator, err := control.NewControl(c.rdb, c.cfg.Redis.Namespace, name)
		if err != nil {
			return err
		}
		now, err := operator.Get(ctx)
		if errors.Is(err, control.ErrUnknownLimit) {
			continue // it is being deleted
		}
		if err != nil {
			return err
		}
		jobs := countsOf(c.cfg, name)
		all = append(all, cli.Merged{termsOf(now.Terms), listed{Name: name, Revision: now.Revision, RevertAt: cli.Exact(now.RevertAt), counts: jobs}})
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", name, now.Revision, brief(now.Terms, jobs), cli.Stamp(now.RevertAt))
	}
	switch {
	case asJSON:
		return cli.PrintJSON(w, all)
	case len(all) == 0:
		return cli.PrintLine(w, "redis holds no limits in namespace "+c.cfg.Redis.Namespace)
	}
	return table.Flush()
}
