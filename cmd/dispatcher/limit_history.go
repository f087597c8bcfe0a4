package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"dispatcher/throttle/control"

	"github.com/spf13/cobra"
)

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
		Use: "history NAME", Short: "Show the changes of the limit with author, time and reason, newest first", Args: oneName("limit", "NAME"),
	}
	cmd.Flags().IntVarP(&n, "number", "n", 20, "`number` of changes to show, at most")
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

func printHistory(w io.Writer, name string, entries []control.Entry) error {
	table := newTable(w)
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

// became lists the settings that a change changed, as from → to.
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

// guardrail writes a guardrail as it is written in the configuration.
func guardrail(value float64) string {
	if value == 0 {
		return "none"
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}
