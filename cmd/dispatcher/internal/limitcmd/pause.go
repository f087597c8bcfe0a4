package limitcmd

import (
	"strconv"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit/parameters"
)

func newPauseCommand(s *cli.Settings, asJSON *bool, verb, about string, paused bool) *cobra.Command {
	h := how{change: control.Change{Values: parameters.Values{"paused": strconv.FormatBool(paused)}}}
	cmd := &cobra.Command{
		Use: verb + " NAME", Short: about, Args: cli.OneName("limit", "NAME"), ValidArgsFunction: s.LimitNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(s, cmd, args[0], *asJSON, h, (*control.Control).Set)
		},
	}
	if paused {
		cmd.Example = "  dispatcher limit pause provider --for 15m --why \"maintenance at the provider\""
	}
	h.flags(cmd.Flags())
	return cmd
}
