package limitcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

func newReleaseCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	var h how
	var one value
	cmd := &cobra.Command{
		Use: "release NAME", Short: "End a block or a slowdown that follows from the provider's answers", Args: cli.OneName("limit", "NAME"),
		Long: "End a block or a slowdown that follows from the provider's answers. The cap is in force at once.\n" +
			"If the provider goes on to refuse calls, the fleet slows down again within seconds.\n" +
			"Of a limit after the first, end the block of one value of its key. Its jobs are asked for again within 5 s.",
		Example: "  dispatcher limit release provider --why \"the provider has raised our quota\"\n" +
			"  dispatcher limit release recipient --key +46701234567",
	}
	one.flags(cmd.Flags())
	h.signature(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := h.ready(cmd.Flags()); err != nil {
			return err
		}
		of, err := one.of(cmd.Flags())
		if err != nil {
			return flagged(err)
		}
		return connected(s, cmd, args[0], of, func(ctx context.Context, conn limitConn) error {
			now, err := conn.control.Get(ctx)
			if err != nil {
				return err
			}
			if err := conn.release(ctx, now, h); errors.Is(err, control.ErrNotSlowed) {
				cmd.PrintErrln(err)
			} else if err != nil {
				return err
			}
			return conn.show(ctx, cmd.OutOrStdout(), now, *asJSON, false, nil)
		})
	}
	return cmd
}

// release ends what the provider's answers hold up: of a gate, the jobs of one value of its key, or all where it has none.
func (c limitConn) release(ctx context.Context, now limit.Settings, h how) error {
	if !now.Gate {
		_, err := c.control.Release(ctx, h.change.By, h.change.Why)
		return err
	}
	of := c.value
	if of == nil {
		if countsOf(c.cfg, c.name).Key != "" {
			return errors.New("limit release: name the value: give --key or --hash; nothing was changed")
		}
		whole := limit.HashOf("")
		of = &whole
	}
	_, err := c.control.ReleaseValue(ctx, *of, c.cfg.Limits[0].Name, h.change.By, h.change.Why)
	return err
}

// slowdownState is what the provider's answers leave of a limit.
type slowdownState struct {
	EffectiveCap float64 `json:"effective_cap"` // in any window
	Granted      float64 `json:"granted_units"` // in any window, now: less than the effective cap for some seconds after a block
	Since        string  `json:"since,omitempty"`
	BlockedUntil string  `json:"blocked_until,omitempty"`
	Why          string  `json:"why"`
}

// slowdownState is nil where the provider's answers slow nothing down.
func (c limitConn) slowdownState(ctx context.Context, now limit.Settings, clock time.Time) (*slowdownState, error) {
	slow, err := c.control.Slowdown(ctx)
	if err != nil || slow.Slowed == 0 {
		return nil, err
	}
	state := slowdownState{
		EffectiveCap: slow.EffectiveCap(now.Contract), Granted: slow.UnitsIn(now.Contract),
		Since: cli.Exact(limit.FromMicros(slow.Slowed)), Why: slow.Why,
	}
	if slow.BlockedAt(clock) {
		state.BlockedUntil = cli.Exact(limit.FromMicros(slow.Until))
	}
	return &state, nil
}

// row shows the slowdown, with its reason.
func (s slowdownState) row(table io.Writer) {
	_, _ = fmt.Fprintf(table, "  effective cap\t%.4g\tsince %s: %s\n", s.EffectiveCap, s.Since, s.Why)
	switch {
	case s.BlockedUntil != "":
		_, _ = fmt.Fprintf(table, "  blocked until\t%s\tas the provider asked; limit release ends it\n", s.BlockedUntil)
	case s.Granted < s.EffectiveCap:
		_, _ = fmt.Fprintf(table, "  granted\t%.4g\tin a window now, and twice as much each second without a refused call\n", s.Granted)
	}
}
