package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dispatcher/configs"
	"dispatcher/internal/fault"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// how is what all commands that change a limit can be told.
type how struct {
	change  control.Change
	wait    bool
	missing bool // may be
}

func (h *how) flags(f *pflag.FlagSet) {
	f.DurationVar(&h.change.For, "for", 0, "take it back after this `time`, such as 10m; 0 is for good")
	f.Int64Var(&h.change.IfRevision, "if-revision", 0, "refuse unless this `revision` is in force")
	f.StringVar(&h.change.Why, "why", "", "`text` for the history")
	f.StringVar(&h.change.By, "by", "", "`who` makes the change, for the history (default: user@host)")
	f.BoolVar(&h.wait, "wait", false, "wait until every node knows the change, for 5 s at most; fail where one does not")
	f.BoolVar(&h.missing, "allow-missing", false, "with --wait: don't fail where nodes were not seen since the change")
}

// force is for the commands that a guardrail can stop.
func (h *how) force(f *pflag.FlagSet) {
	f.BoolVar(&h.change.Force, "force", false, "pass max_cap and max_step")
}

// validate refuses what would be taken for something else.
func (h *how) validate(f *pflag.FlagSet) error {
	if f.Changed("for") && h.change.For == 0 {
		return &fault.Error{Field: "for", Value: h.change.For, Remedy: "must be a time; leave it out for a change that is for good"}
	}
	if f.Changed("by") && (h.change.By == "" || len(h.change.By) > maxBy) {
		return &fault.Error{Field: "by", Value: h.change.By, Remedy: fmt.Sprintf("must have 1 to %d bytes", maxBy)}
	}
	if h.missing && !h.wait {
		return &fault.Error{Field: "allow_missing", Value: h.missing, Remedy: "goes with --wait"}
	}
	if f.Changed("if-revision") && h.change.IfRevision < 1 {
		return &fault.Error{Field: "if_revision", Value: h.change.IfRevision, Remedy: "must be at least 1"}
	}
	return nil
}

const maxBy = 200 // bytes

// changeFunc makes a change and returns what is in force after it.
type changeFunc func(context.Context, *control.Control, control.Change) (limit.Settings, error)

func makeChange(ctx context.Context, c *control.Control, ch control.Change) (limit.Settings, error) {
	return c.Set(ctx, ch)
}

// change makes a change, waits for it where that is asked for, and shows it.
func (s *settings) change(cmd *cobra.Command, name string, asJSON bool, h how, do changeFunc) error {
	if err := flagged(h.validate(cmd.Flags())); err != nil {
		return err
	}
	if h.change.By == "" {
		h.change.By = operator()
	}
	return s.connected(cmd, name, func(ctx context.Context, conn limitConn) error {
		now, err := do(ctx, conn.control, h.change)
		unchanged := errors.Is(err, control.ErrUnchanged)
		switch {
		case unchanged:
			cmd.PrintErrln(err)
		case err != nil:
			return err
		}
		if !h.wait {
			made := &awaited{}
			if unchanged {
				made = nil
			}
			return conn.show(ctx, cmd.OutOrStdout(), now, asJSON, made)
		}
		wctx, cancel := context.WithTimeout(cmd.Context(), limitTimeout)
		defer cancel()
		n, took, late := conn.control.Await(wctx, now)
		sctx, cancel := context.WithTimeout(cmd.Context(), limitTimeout)
		defer cancel()
		err = conn.show(sctx, cmd.OutOrStdout(), now, asJSON, &awaited{waited: true, nodes: n, took: took, err: late})
		if h.missing && errors.As(late, new(*control.NotEverywhereError)) {
			cmd.PrintErrln(late)
			late = nil
		}
		return errors.Join(late, err)
	})
}

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
		Use: "set NAME", Short: "Change the limit", Args: oneName("limit", "NAME"),
		Example: "  dispatcher limit set provider --cap 300 --window 1s\n" +
			"  dispatcher limit set provider --cap 500 --for 10m --why \"backlog after the outage\" --wait",
	}
	flags := cmd.Flags()
	flags.Int64Var(&units, "cap", 0, "`calls` the provider allows in any window")
	flags.DurationVar(&window, "window", 0, "the provider's window, such as 1s or 1m")
	flags.Int64Var(&burst, "burst", 0, "`calls` that may go at once after a pause")
	flags.StringVar(&guard, "guard", "", "by how much the calls' times may differ on their way, lateness included: a `time`, or auto, which leaves it to the fleet")
	flags.DurationVar(&lateness, "lateness", 0, "how late a call may start")
	flags.DurationVar(&spread, "spread", 0, "by how much the way to the provider differs; with a guard of auto")
	flags.DurationVar(&horizon, "horizon", 0, "how far ahead slots are reserved")
	flags.StringVar(&algorithm, "algorithm", "", "`name` of the algorithm that keeps the limit; nothing is sent for a window while the nodes change over")
	flags.Int64Var(&maxCap, "max-cap", 0, "the most `calls` that --cap takes without --force; 0 for any")
	flags.Float64Var(&maxStep, "max-step", 0, "by which `factor` the rate may change at once without --force; 0 for any")
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
			return errors.New("limit set: nothing to change: give --cap, --window or --burst")
		}
		return s.change(cmd, args[0], *asJSON, h, makeChange)
	}
	return cmd
}

// setGuard reads a guard as the configuration does.
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

func newLimitPauseCommand(s *settings, asJSON *bool, verb, about string, paused bool) *cobra.Command {
	h := how{change: control.Change{Paused: &paused}}
	cmd := &cobra.Command{
		Use: verb + " NAME", Short: about, Args: oneName("limit", "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.change(cmd, args[0], *asJSON, h, makeChange)
		},
	}
	if paused {
		cmd.Example = "  dispatcher limit pause provider --for 15m --why \"maintenance at the provider\""
	}
	h.flags(cmd.Flags())
	return cmd
}

func newLimitUndoCommand(s *settings, asJSON *bool) *cobra.Command {
	var (
		h  how
		to int64
	)
	cmd := &cobra.Command{
		Use: "undo NAME", Short: "Take the last change back, one further with each undo, or return to the terms of a revision", Args: oneName("limit", "NAME"),
		Example: "  dispatcher limit undo provider\n  dispatcher limit undo provider --to 7",
	}
	cmd.Flags().Int64Var(&to, "to", 0, "the `revision` to return to, as history shows it (default: the one before the last change)")
	h.flags(cmd.Flags())
	h.force(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("to") && to < 1 {
			return fmt.Errorf("limit undo: --to %d: must be at least 1; nothing was changed", to)
		}
		return s.change(cmd, args[0], *asJSON, h, func(ctx context.Context, c *control.Control, ch control.Change) (limit.Settings, error) {
			return c.Undo(ctx, to, ch)
		})
	}
	return cmd
}
