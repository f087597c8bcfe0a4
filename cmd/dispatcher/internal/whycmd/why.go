package whycmd

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/configs"
	"dispatcher/internal/node"
	"dispatcher/internal/why"
	"dispatcher/throttle/limit"
)

const timeout = 5 * time.Second

// New is the command.
func New(s *cli.Settings) *cobra.Command {
	var asJSON, isJob bool
	cmd := &cobra.Command{
		Use: "why JOB|LIMIT", Short: "Say what a job or a limit of the running fleet waits for", Args: cli.OneName("job or limit", "JOB|LIMIT"),
		Long: "Say what a job or a limit of the running fleet waits for. JOB is the job's id, or its topic/partition/offset.\n" +
			"All nodes are asked, through Redis.",
		Example: "  dispatcher why order-17\n  dispatcher why jobs/3/1284\n  dispatcher why recipient",
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&isJob, "job", false, "the name is a job's, although a limit has it too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := s.Manage(nil)
		if err != nil {
			return err
		}
		q := why.Question{Job: args[0]}
		if _, isLimit := cfg.Stated(args[0]); isLimit && !isJob {
			q = why.Question{Limit: args[0]}
		}
		r, err := ask(cmd, cfg, q)
		if err != nil {
			return err
		}
		if asJSON {
			return errors.Join(cli.PrintJSON(cmd.OutOrStdout(), r), unknown(r))
		}
		return errors.Join(show(r, cmd.OutOrStdout()), unknown(r))
	}
	return cmd
}

// ask asks all nodes that work.
func ask(cmd *cobra.Command, cfg configs.Config, q why.Question) (why.Report, error) {
	r := why.Report{}
	if cfg.Limits[0].Scope == limit.ScopeNode {
		return r, errors.New("each node keeps a limit of its own (limits.0.scope: node), so there is no Redis to ask them through: look at /readyz and the log of each node")
	}
	rdb, err := node.RedisClient(cfg, cli.Logger(cfg, cmd.ErrOrStderr()), timeout)
	if err != nil {
		return r, err
	}
	defer func() { _ = rdb.Close() }() // nothing is under way that its error could concern
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	return why.AskAll(ctx, rdb, cfg.Redis.Namespace, cfg.Limits[0].Name, q)
}
