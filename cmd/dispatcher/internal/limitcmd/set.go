package limitcmd

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

func newSetCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	var h how
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Change the limit on all nodes", Args: cli.OneName("limit", "NAME"),
		Example: "  dispatcher limit set provider --cap 300 --window 1s\n" +
			"  dispatcher limit set provider --cap 500 --for 10m --why \"backlog after the outage\" --wait",
	}
	for _, p := range limit.Parameters {
		if p.Kind == limit.Term || p.Kind == limit.Guardrail {
			cmd.Flags().String(flagOf(p.Name), "", p.About)
		}
	}
	h.flags(cmd.Flags())
	h.force(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h.change.Values = given(cmd.Flags())
		if len(h.change.Values) == 0 {
			return errors.New("limit set: nothing to change: give a flag such as --cap, --window or --burst")
		}
		return change(s, cmd, args[0], *asJSON, h, (*control.Control).Set)
	}
	return cmd
}

// given are the parameters for which there is a flag on the command line.
func given(flags *pflag.FlagSet) limit.Values {
	values := limit.Values{}
	for _, p := range limit.Parameters {
		if flag := flags.Lookup(flagOf(p.Name)); flag != nil && flag.Changed {
			values[p.Name] = flag.Value.String()
		}
	}
	return values
}

// flagOf is the flag of a setting.
func flagOf(name string) string { return strings.ReplaceAll(name, "_", "-") }
