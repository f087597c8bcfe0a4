package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// termsState are the terms of a limit in JSON.
type termsState struct {
	Algorithm string  `json:"algorithm"`
	Cap       int64   `json:"cap"`
	WindowS   float64 `json:"window_s"`
	Burst     int64   `json:"burst"`
	GuardS    float64 `json:"guard_s"`
	GuardAuto bool    `json:"guard_auto"` // the fleet chooses guard and lateness
	LatenessS float64 `json:"lateness_s"`
	SpreadS   float64 `json:"spread_s"`
	HorizonS  float64 `json:"horizon_s"`
	Paused    bool    `json:"paused"`
}

func newTermsState(t limit.Terms) termsState {
	return termsState{
		Algorithm: t.Algorithm,
		Cap:       t.Cap, WindowS: t.Window.Seconds(), Burst: t.Burst, GuardS: t.Guard.Seconds(),
		GuardAuto: t.Auto, LatenessS: t.Lateness.Seconds(), SpreadS: t.Spread.Seconds(), HorizonS: t.Horizon.Seconds(), Paused: t.Paused,
	}
}

// changeState is one change of a limit.
type changeState struct {
	Revision int64      `json:"revision"`
	Changed  string     `json:"changed"`
	By       string     `json:"by"`
	Why      string     `json:"why,omitempty"`
	Undid    int64      `json:"undid,omitempty"` // the revision that it took back
	RevertAt string     `json:"revert_at,omitempty"`
	From     termsState `json:"from"`
	To       termsState `json:"to"`

	MaxCap  int64   `json:"max_cap"` // as it became; 0: none
	MaxStep float64 `json:"max_step"`
}

func newLimitHistoryCommand(s *settings, asJSON *bool) *cobra.Command {
	var n int
	cmd := &cobra.Command{
		Use: "history NAME", Short: "Show who changed the limit, when and why; the newest change first", Args: oneName("limit", "NAME"),
	}
	cmd.Flags().IntVarP(&n, "number", "n", 20, "`changes` to show, at most")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if n < 1 {
			return fmt.Errorf("limit history: --number %d: must be at least 1", n)
		}
		return s.connected(cmd, args[0], func(ctx context.Context, conn limitConn) error {
			entries, err := conn.control.History(ctx, n)
			if err != nil {
				return err
			}
			if *asJSON {
				return printJSON(cmd.OutOrStdout(), historyState(entries))
			}
			return printHistory(cmd.OutOrStdout(), args[0], entries)
		})
	}
	return cmd
}

func historyState(entries []control.Entry) []changeState {
	list := make([]changeState, 0, len(entries))
	for _, e := range entries {
		list = append(list, changeState{
			Revision: e.Revision, Changed: exact(e.Changed), By: e.By, Why: e.Why, Undid: e.Undid, RevertAt: exact(e.RevertAt),
			From: newTermsState(e.From), To: newTermsState(e.To),
			MaxCap: e.GuardrailsTo.MaxCap, MaxStep: e.GuardrailsTo.MaxStep,
		})
	}
	return list
}

// exact is a time to be compared with others; none is empty.
func exact(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
}

func printHistory(w io.Writer, name string, entries []control.Entry) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(entries) == 0 {
		_, _ = fmt.Fprintf(table, "limit %s has not been changed since it was seeded\n", name)
	} else {
		_, _ = fmt.Fprintln(table, "REVISION\tCHANGED\tFROM → TO\tBY\tWHY")
	}
	for _, e := range entries {
		_, _ = fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", e.Revision, stamp(e.Changed), became(e), e.By, e.Why)
	}
	return table.Flush()
}

// became is what a change made of the limit: each setting that it changed, as from →
// to.
func became(e control.Entry) string {
	var words []string
	changed := func(field, from, to string) {
		if from != to {
			words = append(words, fmt.Sprintf("%s %s → %s", field, from, to))
		}
	}
	for _, d := range differences(e.From, e.To) {
		changed(d.Field, d.File, d.Redis)
	}
	if e.From.Auto && e.To.Auto { // chosen by the fleet
		changed("lateness", short(e.From.Lateness), short(e.To.Lateness))
		changed("guard", short(e.From.Guard), short(e.To.Guard))
	}
	changed("max_cap", guardrail(float64(e.GuardrailsFrom.MaxCap)), guardrail(float64(e.GuardrailsTo.MaxCap)))
	changed("max_step", guardrail(e.GuardrailsFrom.MaxStep), guardrail(e.GuardrailsTo.MaxStep))
	switch {
	case e.To.Paused && !e.From.Paused:
		words = append(words, "paused")
	case e.From.Paused && !e.To.Paused:
		words = append(words, "resumed")
	}
	if len(words) == 0 {
		words = append(words, "the end of an override")
	}
	if !e.RevertAt.IsZero() {
		words = append(words, "until "+stamp(e.RevertAt))
	}
	return strings.Join(words, ", ")
}

// guardrail is one as it was stated.
func guardrail(value float64) string {
	if value == 0 {
		return "none"
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}

func newLimitListCommand(s *settings, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Show the limits that Redis holds in the namespace", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.connected(cmd, "", func(ctx context.Context, conn limitConn) error {
				return conn.list(ctx, cmd.OutOrStdout(), *asJSON)
			})
		},
	}
}

// listed is one limit of the list.
type listed struct {
	Name string `json:"name"`
	termsState
	Revision int64  `json:"revision"`
	RevertAt string `json:"revert_at,omitempty"`
}

func (c limitConn) list(ctx context.Context, w io.Writer, asJSON bool) error {
	names, err := control.Limits(ctx, c.rdb, c.cfg.Redis.Namespace)
	if err != nil {
		return err
	}
	all := make([]listed, 0, len(names))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAME\tREVISION\tIN FORCE\tUNTIL")
	for _, name := range names {
		operator, err := control.NewControl(c.rdb, c.cfg.Redis.Namespace, name)
		if err != nil {
			return err
		}
		now, err := operator.Get(ctx)
		if errors.Is(err, control.ErrUnknownLimit) {
			continue // it is being deleted
		}
		if err != nil {
			return err
		}
		all = append(all, listed{Name: name, termsState: newTermsState(now.Terms), Revision: now.Revision, RevertAt: exact(now.RevertAt)})
		_, _ = fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", name, now.Revision, brief(now.Terms), stamp(now.RevertAt))
	}
	switch {
	case asJSON:
		return printJSON(w, all)
	case len(all) == 0:
		_, err := fmt.Fprintf(w, "redis holds no limits in namespace %s\n", c.cfg.Redis.Namespace)
		return err
	}
	return table.Flush()
}
