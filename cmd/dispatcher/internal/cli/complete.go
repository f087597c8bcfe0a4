package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// completion is for how long a shell waits for the names of limits.
const completion = time.Second

// Choices has the shell complete a flag with these values.
func Choices(cmd *cobra.Command, flag string, values ...string) {
	completes(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// JobTopics has the shell complete a flag with the job topics of the configuration.
func (s *Settings) JobTopics(cmd *cobra.Command, flag string) {
	completes(cmd, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		cfg, err := s.Manage(nil)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return cfg.Kafka.JobTopics(), cobra.ShellCompDirectiveNoFileComp
	})
}

func completes(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic(err) // the command has no such flag, or it was registered before
	}
}

// LimitNames completes a command's one argument with the limits that Redis holds. It offers none where Redis can't be asked.
func (s *Settings) LimitNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completion)
	defer cancel()
	return s.limitNames(ctx), cobra.ShellCompDirectiveNoFileComp
}

func (s *Settings) limitNames(ctx context.Context) (names []string) {
	r, closed, err := s.redis(io.Discard, completion)
	if err != nil {
		return nil
	}
	defer closed()
	all, err := r.List(ctx)
	if err != nil {
		return nil
	}
	for _, one := range all {
		names = append(names, cobra.CompletionWithDesc(one.Name, Brief(one.Settings.Terms, one.Counts)))
	}
	return names
}
