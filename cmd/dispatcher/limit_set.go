package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/configs"
	"dispatcher/internal/fault"
	"dispatcher/throttle/control"
)

func newLimitSetCommand(s *settings, asJSON *bool) *cobra.Command {
	var (
		h                                 how
		units, burst, maxCap              int64
		maxStep                           float64
		guard                             string
		window, lateness, spread, horizon time.Duration
		algorithm                         string
	)
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Change the limit on all nodes", Args: oneName("limit", "NAME"),
		Example: "  dispatcher limit set provider --cap 300 --window 1s\n" +
			"  dispatcher limit set provider --cap 500 --for 10m --why \"backlog after the outage\" --wait",
	}
	flags := cmd.Flags()
	flags.Int64Var(&units, "cap", 0, "`calls` the provider allows in any window")
	flags.DurationVar(&window, "window", 0, "the provider's window, such as 1s or 1m")
	flags.Int64Var(&burst, "burst", 0, "`calls` that may go at once after a pause")
	flags.StringVar(&guard, "guard", "", "how much the delay from slot to arrival may vary, lateness included: a `time`, or auto: the fleet chooses")
	flags.DurationVar(&lateness, "lateness", 0, "how late after its slot a call may start")
	flags.DurationVar(&spread, "spread", 0, "how much the delay on the network varies; with --guard auto")
	flags.DurationVar(&horizon, "horizon", 0, "how far ahead slots are reserved")
	flags.StringVar(&algorithm, "algorithm", "", "`name` of the algorithm; a change stops all calls for one window")
	flags.Int64Var(&maxCap, "max-cap", 0, "largest cap in `calls` that needs no --force; 0: no bound")
	flags.Float64Var(&maxStep, "max-step", 0, "largest `factor` between the old and the new rate that needs no --force; 0: no bound")
	h.flags(flags)
	h.force(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given := 0
		for name, use := range map[string]func(){
			"cap": func() { h.change.Cap = &units }, "window": func() { h.change.Window = &window },
			"burst": func() { h.change.Burst = &burst }, "spread": func() { h.change.Spread = &spread },
			"lateness": func() { h.change.Lateness = &lateness }, "horizon": func() { h.change.Horizon = &horizon },
			"algorithm": func() { h.change.Algorithm = &algorithm },
			"max-cap":   func() { h.change.MaxCap = &maxCap }, "max-step": func() { h.change.MaxStep = &maxStep },
		} {
			if flags.Changed(name) {
				use()
				given++
			}
		}
		if flags.Changed("guard") {
			given++
			if err := setGuard(&h.change, guard); err != nil {
				return flagged(err)
			}
		}
		if given == 0 {
			return errors.New("limit set: nothing to change: give a flag such as --cap, --window or --burst")
		}
		return s.change(cmd, args[0], *asJSON, h, makeChange)
	}
	return cmd
}

// setGuard reads a guard as it is written in the configuration.
func setGuard(ch *control.Change, guard string) error {
	auto := guard == configs.GuardAuto
	ch.Auto = &auto
	if auto {
		return nil
	}
	d, err := time.ParseDuration(guard)
	if err != nil {
		return &fault.Error{Field: "guard", Value: guard, Remedy: "must be auto, or a duration with a unit, such as 10ms"}
	}
	ch.Guard = &d
	return nil
}
