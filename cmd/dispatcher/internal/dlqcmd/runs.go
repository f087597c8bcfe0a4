package dlqcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/redrive"
	"dispatcher/internal/timetext"
)

// redisTimeout bounds what Redis is asked for.
const redisTimeout = 5 * time.Second

func newRunsCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "runs", Short: "List the replays and drops that run on nodes, and the last ones", Args: cobra.NoArgs,
		Long: "List the replays and drops that were started over HTTP, and run in the background of a node. The last 50 are\n" +
			"kept, in Redis. A run is lost when its node has not said anything of it for ten seconds: what it did stays done.",
		Example: "  dispatcher dlq runs\n  dispatcher dlq runs --json | jq '.[] | select(.state == \"running\")'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, closed, err := s.Redis(cmd, redisTimeout)
			if errors.Is(err, cli.ErrNoRedis) {
				return errors.New("dlq runs: each node keeps a limit of its own (limits.0.scope: node), and runs need Redis: use dlq replay and dlq drop")
			}
			if err != nil {
				return err
			}
			defer closed()
			ctx, cancel := context.WithTimeout(cmd.Context(), redisTimeout)
			defer cancel()
			runs, err := redrive.NewStore(r.Redis, r.Config.Redis.Namespace).List(ctx)
			if err != nil {
				return dlqError(cmd, err)
			}
			if *asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), runs)
			}
			return printRuns(cmd.OutOrStdout(), runs)
		},
	}
}

func printRuns(w io.Writer, runs []redrive.Run) error {
	if len(runs) == 0 {
		return cli.PrintLine(w, "no replay or drop was started over HTTP")
	}
	table := cli.Table(w)
	_, _ = fmt.Fprintln(table, "RUN\tDOES\tTOPIC\tSTATE\tDONE\tMATCHED\tLEFT\tREAD\tSTARTED\tENDED\tNODE\tBY\tWHY\tERROR")
	for i := range runs {
		r := &runs[i]
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d of %d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Kind, cli.Plainly(r.Topic, 60), r.State,
			r.Done, r.Matched, r.Left, r.Read, r.ToRead, timetext.Stamp(r.Started), ended(r), cli.Plainly(r.Node, 40),
			cli.Plainly(r.By, 60), cli.Plainly(r.Why, 60), cli.Plainly(r.Error, 100))
	}
	return table.Flush()
}

func ended(r *redrive.Run) string {
	if r.Ended.IsZero() {
		return "-"
	}
	return timetext.Stamp(r.Ended)
}
