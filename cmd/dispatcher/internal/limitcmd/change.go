package limitcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/audit"
	"dispatcher/internal/fault"
	"dispatcher/internal/limits"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// how are the options of all commands that change a limit.
type how struct {
	change  control.Change
	value   value
	wait    bool
	missing bool // a node that was not seen is no error
}

func (h *how) flags(f *pflag.FlagSet) {
	f.DurationVar(&h.change.For, "for", 0, "take the change back after this `time`, such as 10m (default: keep it)")
	f.Int64Var(&h.change.IfRevision, "if-revision", 0, "refuse unless this `revision` is in force")
	h.signature(f)
	f.BoolVar(&h.wait, "wait", false, "wait until every node knows the change, for 5 s at most; fail if one does not")
	f.BoolVar(&h.missing, "allow-missing", false, "with --wait: don't fail because of nodes that were not seen since the change")
}

// signature adds the flags of all commands that the history tells of.
func (h *how) signature(f *pflag.FlagSet) {
	f.StringVar(&h.change.Why, "why", "", "`reason` of the change, for the history")
	f.StringVar(&h.change.By, "by", "", "`author` of the change, for the history (default: user@host)")
}

// force adds the flag of the commands that a guardrail, or a waste of the cap, can stop.
func (h *how) force(f *pflag.FlagSet) {
	f.BoolVar(&h.change.Force, "force", false, "ignore max_cap and max_step, and pass terms that use less than half of the cap")
}

// ready refuses values that would silently mean something else, and names the author.
func (h *how) ready(f *pflag.FlagSet) error {
	if err := flagged(h.validate(f)); err != nil {
		return err
	}
	if h.change.By == "" {
		h.change.By = cli.Operator()
	}
	return nil
}

func (h *how) validate(f *pflag.FlagSet) error {
	if f.Changed("for") && h.change.For == 0 {
		return &fault.Error{Field: "for", Value: h.change.For, Remedy: "must be above 0; leave it out to keep the change"}
	}
	if f.Changed("by") && h.change.By == "" {
		return &fault.Error{Field: "by", Value: h.change.By, Remedy: "must not be empty; leave it out to be named as user@host"}
	}
	if err := audit.CheckBy(h.change.By); err != nil {
		return err
	}
	if h.missing && !h.wait {
		return &fault.Error{Field: "allow_missing", Value: h.missing, Remedy: "goes with --wait"}
	}
	if f.Changed("if-revision") && h.change.IfRevision < 1 {
		return &fault.Error{Field: "if_revision", Value: h.change.IfRevision, Remedy: "must be at least 1"}
	}
	return nil
}

// changeFunc makes a change and returns what is in force after it.
type changeFunc func(*control.Control, context.Context, control.Change) (limit.Settings, error)

// change makes a change, waits for the nodes with --wait, and prints the limit.
func change(s *cli.Settings, cmd *cobra.Command, name string, asJSON bool, h how, do changeFunc) error {
	if err := h.ready(cmd.Flags()); err != nil {
		return err
	}
	of, err := h.value.of(cmd.Flags())
	if err != nil {
		return flagged(err)
	}
	return connected(s, cmd, name, of, func(ctx context.Context, conn limitConn) error {
		now, err := do(conn.control, ctx, h.change)
		unchanged := errors.Is(err, control.ErrUnchanged)
		switch {
		case unchanged:
			cmd.PrintErrln(err)
		case err != nil:
			return err
		}
		if !h.wait {
			return unshown(now, conn.show(ctx, cmd.OutOrStdout(), now, asJSON, !unchanged, nil))
		}
		wctx, cancel := context.WithTimeout(cmd.Context(), limitTimeout)
		defer cancel()
		n, took, late := conn.control.Await(wctx, now)
		lacking := errors.As(late, new(*control.NotEverywhereError))
		if late != nil && !lacking {
			return late // Redis did not answer for the whole wait: it would not for show
		}
		sctx, cancel := context.WithTimeout(cmd.Context(), limitTimeout)
		defer cancel()
		var confirmed *limits.InForce
		if late == nil {
			after := took.Seconds()
			confirmed = &limits.InForce{Nodes: n, Of: n, AfterS: &after, Lacking: []string{}}
		}
		err = unshown(now, conn.show(sctx, cmd.OutOrStdout(), now, asJSON, false, confirmed))
		if h.missing && lacking {
			cmd.PrintErrln(late)
			late = nil
		}
		return errors.Join(late, err)
	})
}

// unshown says of an error of show after a change that the change is made all the same.
func unshown(now limit.Settings, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("revision %d is set, but the limit could not be shown: %w", now.Revision, err)
}
