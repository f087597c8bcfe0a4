package limitcmd

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/fault"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit/parameters"
)

func newSetCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	var h how
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Change the limit on all nodes", Args: cli.OneName("limit", "NAME"), ValidArgsFunction: s.LimitNames,
		Example: "  dispatcher limit set provider --cap 300 --window 1s\n" +
			"  dispatcher limit set provider --cap 500 --for 10m --why \"backlog after the outage\" --wait\n" +
			"  dispatcher limit set recipient --key +46701234567 --cap 5 --for 24h --why \"support line\"",
	}
	cli.LimitFlags(cmd)
	h.flags(cmd.Flags())
	h.force(cmd.Flags())
	h.value.flags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h.change.Values = cli.LimitValues(cmd)
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
func onlyCap(values parameters.Values) (int64, error) {
	var faults fault.List
	for _, name := range slices.Sorted(maps.Keys(values)) {
		faults.Refuse(name != "cap", name, values[name], "is the same for every value of the key: only --cap goes with --key or --hash")
	}
	text, stated := values["cap"]
	units, err := strconv.ParseInt(text, 10, 64)
	faults.Refuse(stated && (err != nil || units < 1), "cap", text, "must be a whole number, at least 1; limit unset takes the exception away")
	return units, faults.Err()
}
