package whycmd

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/why"
)

const timeout = 5 * time.Second

// New is the command.
func New(s *cli.Settings) *cobra.Command {
	var asJSON, isJob bool
	cmd := &cobra.Command{
		Use: "why JOB|LIMIT", Short: "Say what a job or a limit of the running fleet waits for", Args: cli.OneName("job or limit", "JOB|LIMIT"),
		Long: "Say what a job or a limit of the running fleet waits for. JOB is the job's id, or its topic/partition/offset.\n" +
			"All nodes are asked, through Redis. Where none of them holds the job, the open dead letters are searched.",
		Example: "  dispatcher why order-17\n  dispatcher why jobs/3/1284\n  dispatcher why recipient",
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&isJob, "job", false, "the name is a job's, although a limit has it too")
	cmd.ValidArgsFunction = s.LimitNames
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		reader, closed, err := s.Redis(cmd, timeout)
		if err != nil {
			return err
		}
		defer closed()
		q := why.Question{Job: args[0]}
		if _, isLimit := reader.Config.Stated(args[0]); isLimit && !isJob {
			q = why.Question{Limit: args[0]}
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		var r report
		if r.Report, err = why.AskAll(ctx, reader.Redis, reader.Config.Redis.Namespace, reader.First(), q); err != nil {
			return err
		}
		if r.mayBeDead() {
			if err := r.search(cmd, s); err != nil {
				r.Unsearched = err.Error()
			}
		}
		if asJSON {
			return errors.Join(cli.PrintJSON(cmd.OutOrStdout(), r), r.unknown())
		}
		return errors.Join(r.show(cmd.OutOrStdout()), r.unknown())
	}
	return cmd
}
