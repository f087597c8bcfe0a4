package dlqcmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/consumer/dlq"
)

func newReplayCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	x := settling{verb: "replay", done: "replayed"}
	var rate float64
	var whole bool
	cmd := &cobra.Command{
		Use: "replay [ID...]", Short: "Write the jobs of dead letters to their topics again",
		Long: "Write the jobs of the open dead letters that match, or of those that are named, to their job topic (jobs for\n" +
			"dead letters on jobs.dlq or jobs.parked), and settle each dead letter once Kafka has its job. A job keeps its key,\n" +
			"value, headers and id; the header x-redrive counts its replays. A truncated dead letter holds only a part of its\n" +
			"job, and is replayed only with --whole. To replay all, give --all.\n\n" +
			"If the command dies, up to 500 jobs that it has written may still be listed as open.",
		Example: "  dispatcher dlq replay --reason exhausted --since 2h --dry-run\n  dispatcher dlq replay jobs.dlq/3/1042 jobs.dlq/0/17",
	}
	x.define(s, cmd)
	cmd.Flags().StringVar(&x.to, "to", "", "write to this `TOPIC` instead")
	s.JobTopics(cmd, "to")
	cmd.Flags().BoolVar(&whole, "whole", false, "replay truncated dead letters from their original records, where these still exist")
	cmd.Flags().Float64Var(&rate, "rate", 0, "`JOBS` a second at most; 0: no bound")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := dlq.CheckRate(rate); err != nil {
			return fmt.Errorf("dlq replay: --%w", err)
		}
		if err := cli.Filled(cmd.Flags(), "to"); err != nil {
			return err
		}
		return x.run(cmd, s, args, *asJSON, func(ctx context.Context, client *dlq.Client, f dlq.Filter) (dlq.Tally, error) {
			return client.Replay(ctx, f, dlq.ReplayOptions{To: x.to, Rate: rate, Whole: whole, Dry: x.dry})
		})
	}
	return cmd
}
