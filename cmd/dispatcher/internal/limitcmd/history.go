package limitcmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// changeState is one change of a limit.
type changeState struct {
	Revision int64          `json:"revision"`
	Changed  string         `json:"changed"`
	By       string         `json:"by"`
	Why      string         `json:"why,omitempty"`
	Undid    int64          `json:"undid,omitempty"` // the revision that it took back
	RevertAt string         `json:"revert_at,omitempty"`
	From     map[string]any `json:"from"`
	To       map[string]any `json:"to"`
}

func newHistoryCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	var n int
	cmd := &cobra.Command{
		Use: "history NAME", Short: "Show the changes of the limit with author, time and reason, newest first", Args: cli.OneName("limit", "NAME"),
	}
	cmd.Flags().IntVarP(&n, "number", "n", 20, "`number` of changes to show, at most")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if n < 1 {
			return fmt.Errorf("limit history: --number %d: must be at least 1", n)
		}
		return connected(s, cmd, args[0], nil, func(ctx context.Context, conn limitConn) error {
			entries, err := conn.control.History(ctx, n)
			if err != nil {
				return err
			}
			events, err := conn.control.Events(ctx, n)
			if err != nil {
				return err
			}
			lines := merged(entries, events, n)
			if *asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), historyState(lines))
			}
			return printHistory(cmd.OutOrStdout(), args[0], lines)
		})
	}
	return cmd
}

// historyLine is a change of the settings, or what became of a slowdown.
type historyLine struct {
	change *control.Entry
	event  control.Event
}

// merged are the last n changes and events together, the newest first.
func merged(entries []control.Entry, events []control.Event, n int) (all []historyLine) {
	for _, e := range entries {
		all = append(all, historyLine{change: &e, event: control.Event{At: e.To.Changed}})
	}
	for _, e := range events {
		all = append(all, historyLine{event: e})
	}
	slices.SortStableFunc(all, func(a, b historyLine) int { return b.event.At.Compare(a.event.At) })
	return all[:min(n, len(all))]
}

// eventState is what became of a slowdown.
type eventState struct {
	At    string `json:"at"`
	Event string `json:"event"`
	By    string `json:"by"`
}

func historyState(lines []historyLine) []any {
	list := make([]any, 0, len(lines))
	for _, l := range lines {
		if l.change == nil {
			list = append(list, eventState{At: cli.Exact(l.event.At), Event: l.event.Text, By: l.event.By})
			continue
		}
		e := *l.change
		list = append(list, cli.Merged{guardrailsOf(e.To), changeState{
			Revision: e.To.Revision, Changed: cli.Exact(e.To.Changed), By: e.To.By, Why: e.To.Why, Undid: e.To.Undid, RevertAt: cli.Exact(e.To.RevertAt),
			From: termsOf(e.From.Terms), To: termsOf(e.To.Terms),
		}})
	}
	return list
}

func printHistory(w io.Writer, name string, lines []historyLine) error {
	table := cli.Table(w)
	if len(lines) == 0 {
		_, _ = fmt.Fprintf(table, "limit %s has not been changed since it was seeded\n", name)
	} else {
		_, _ = fmt.Fprintln(table, "REVISION\tCHANGED\tFROM → TO\tBY\tWHY")
	}
	for _, l := range lines {
		if l.change == nil {
			_, _ = fmt.Fprintf(table, "\t%s\t%s\t%s\t\n", cli.Stamp(l.event.At), l.event.Text, l.event.By)
			continue
		}
		e := *l.change
		_, _ = fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", e.To.Revision, cli.Stamp(e.To.Changed), became(e), e.To.By, e.To.Why)
	}
	return table.Flush()
}

// exceptionText is a changed exception in one phrase.
func exceptionText(c limit.ExceptionChange) string {
	if c.Until.IsZero() {
		return c.String()
	}
	return c.String() + " until " + cli.Stamp(c.Until)
}

// became lists the settings that a change changed, as from → to.
func became(e control.Entry) string {
	var words []string
	changed := func(field, from, to string) {
		words = append(words, fmt.Sprintf("%s %s → %s", field, cli.Quoted(from), cli.Quoted(to)))
	}
	for _, p := range limit.Differences(e.From, e.To) {
		switch {
		case p.Kind == limit.ByValue:
			for _, c := range limit.ChangedExceptions(e.From.Exceptions, e.To.Exceptions) {
				words = append(words, exceptionText(c))
			}
		case p.Kind != limit.Pause:
			changed(p.Name, valueText(p, e.From), valueText(p, e.To))
		case e.To.Paused:
			words = append(words, "paused")
		default:
			words = append(words, "resumed")
		}
	}
	if e.From.Auto && e.To.Auto && e.From.Lateness != e.To.Lateness { // chosen by the fleet
		changed("lateness", cli.Short(e.From.Lateness), cli.Short(e.To.Lateness))
		changed("guard", cli.Short(e.From.Guard), cli.Short(e.To.Guard))
	}
	if len(words) == 0 {
		words = append(words, "the end of an override")
	}
	if !e.To.RevertAt.IsZero() {
		words = append(words, "until "+cli.Stamp(e.To.RevertAt))
	}
	return strings.Join(words, ", ")
}
