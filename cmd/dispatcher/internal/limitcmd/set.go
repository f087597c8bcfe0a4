package limitcmd

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/fault"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

func newSetCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	var h how
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Change the limit on all nodes", Args: cli.OneName("limit", "NAME"),
		Example: "  dispatcher limit set provider --cap 300 --window 1s\n" +
			"  dispatcher limit set provider --cap 500 --for 10m --why \"backlog after the outage\" --wait\n" +
			"  dispatcher limit set recipient --key +46701234567 --cap 5 --for 24h --why \"support line\"",
	}
	for _, p := range limit.Parameters {
		if p.Kind == limit.Term || p.Kind == limit.Guardrail {
			cmd.Flags().String(flagOf(p.Name), "", p.About)
		}
	}
	h.flags(cmd.Flags())
	h.force(cmd.Flags())
	h.value.flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h.change.Values = given(cmd.Flags())
		if len(h.change.Values) == 0 {
			return errors.New("limit set: nothing to change: give a flag such as --cap, --window or --burst")
		}
		of, err := h.value.of(cmd.Flags())
		if err != nil {
			return flagged(err)
		}
		if of == nil {
			return change(s, cmd, args[0], *asJSON, h, (*control.Control).Set)
		}
		units, err := onlyCap(h.change.Values)
		if err != nil {
			return flagged(err)
		}
		return change(s, cmd, args[0], *asJSON, h, except(*of, units))
	}
	return cmd
}

// onlyCap is the cap for one value: it has no other setting of its own.
func onlyCap(values limit.Values) (int64, error) {
	var faults fault.List
	for _, name := range slices.Sorted(maps.Keys(values)) {
		faults.Refuse(name != "cap", name, values[name], "is the same for every value of the key: only --cap goes with --key or --hash")
	}
	text, stated := values["cap"]
	units, err := strconv.ParseInt(text, 10, 64)
	faults.Refuse(stated && (err != nil || units < 1), "cap", text, "must be a whole number, at least 1; limit unset takes the exception away")
	return units, faults.Err()
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
