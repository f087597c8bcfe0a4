package dlqcmd

import (
	"fmt"
	"io"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/configs"
	"dispatcher/consumer/dlq"
)

const dlqHelp = `Look at the dead letters of job topics, and settle each by replaying or dropping it.

A dead letter stays on <topic>.dlq until retention deletes it. Kafka remembers which are settled, in the
offset of the group <group>.<topic>.dlq; settled ones are no longer listed. The offset reaches 8192 records
beyond the first open dead letter: one further away can be settled only after those before it. Kafka forgets
the offset if nothing is settled for the brokers' offsets.retention.minutes, a week by default. Then all dead
letters that are still on the topic are open again.

With sender.on_unknown: park, --parked selects the jobs on <topic>.parked: those that may have been done. Look
them up at the provider, then drop or replay them.

Only one command at a time settles dead letters of a topic. The others wait, for 30 s at most. A replay or drop that
was started over HTTP is such a command, too: dlq runs lists them.`

// New is the command.
func New(s *cli.Settings) *cobra.Command {
	var asJSON bool
	g := cli.Group("dlq", "Look at dead letters, replay them or drop them",
		newListCommand(s, &asJSON),
		newShowCommand(s, &asJSON),
		newReplayCommand(s, &asJSON),
		newDropCommand(s, &asJSON),
		newRunsCommand(s, &asJSON),
	)
	g.Long = dlqHelp
	g.PersistentFlags().BoolVar(&asJSON, "json", false, "print JSON")
	return g
}

// clientOf makes a client of the dead letters, and a bar that counts offsets. A
// list has no bar: its lines show the progress.
func clientOf(s *cli.Settings, cmd *cobra.Command) (*dlq.Client, configs.Config, *progressbar.ProgressBar, error) {
	cfg, conn, err := s.Kafka(cmd)
	if err != nil {
		return nil, cfg, nil, err
	}
	w := cmd.ErrOrStderr()
	if cmd.Name() == "list" {
		w = io.Discard
	}
	bar := cli.Bar(w, cmd.Name(), 1)
	client, err := dlq.New(dlq.Options{
		Connection: conn, Group: cfg.Kafka.Group, JobTopics: cfg.Kafka.JobTopics(),
		Progress: func(passed, all int64) {
			bar.ChangeMax64(max(all, 1))
			_ = bar.Set64(passed)
		},
	})
	return client, cfg, bar, err
}

// dlqError names the command in an error, and an interrupt as such.
func dlqError(cmd *cobra.Command, err error) error {
	switch {
	case err == nil:
		return nil
	case cmd.Context().Err() != nil:
		return fmt.Errorf("dlq %s: interrupted", cmd.Name())
	}
	return fmt.Errorf("dlq %s: %w", cmd.Name(), err)
}
