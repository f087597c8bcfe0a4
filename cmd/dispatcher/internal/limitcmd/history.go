package limitcmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/limits"
	"dispatcher/internal/timetext"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

func newHistoryCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	var n int
	cmd := &cobra.Command{
		Use: "history NAME", Short: "Show the changes of the limit with author, time and reason, newest first", Args: cli.OneName("limit", "NAME"), ValidArgsFunction: s.LimitNames,
	}
	cmd.Flags().IntVarP(&n, "number", "n", 20, "`number` of changes to show, at most")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if n < 1 {
			return fmt.Errorf("limit history: --number %d: must be at least 1", n)
		}
		return connected(s, cmd, args[0], nil, func(ctx context.Context, conn limitConn) error {
			lines, err := limits.History(ctx, conn.control, n)
			if err != nil {
				return err
			}
			if *asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), lines)
			}
			return printHistory(cmd.OutOrStdout(), args[0], lines)
		})
	}
	return cmd
}

func printHistory(w io.Writer, name string, lines []limits.Line) error {
	table := cli.Table(w)
	if len(lines) == 0 {
		_, _ = fmt.Fprintf(table, "limit %s has not been changed since it was seeded\n", name)
	} else {
		_, _ = fmt.Fprintln(table, "REVISION\tCHANGED\tFROM → TO\tBY\tWHY")
	}
	for _, l := range lines {
		if l.Change == nil {
			_, _ = fmt.Fprintf(table, "\t%s\t%s\t%s\t\n", timetext.Stamp(l.Event.At), cli.Plainly(l.Event.Text, 0), cli.Plainly(l.Event.By, 0))
			continue
		}
		e := *l.Change
		_, _ = fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", e.To.Revision, timetext.Stamp(e.To.Changed), became(e), cli.Plainly(e.To.By, 0), cli.Plainly(e.To.Why, 0))
	}
	return table.Flush()
}

// exceptionText is a changed exception in one phrase.
func exceptionText(c limit.ExceptionChange) string {
	if c.Until.IsZero() {
		return c.String()
	}
	return c.String() + " until " + timetext.Stamp(c.Until)
}

// became lists the settings that a change changed, as from → to.
func became(e control.Entry) string {
	var words []string
	changed := func(field, from, to string) {
		words = append(words, fmt.Sprintf("%s %s → %s", field, cli.Quoted(from), cli.Quoted(to)))
	}
	for _, p := range parameters.Differences(e.From, e.To) {
		switch {
		case p.Kind == parameters.ByValue:
			for _, c := range limit.ChangedExceptions(e.From.Exceptions, e.To.Exceptions) {
				words = append(words, exceptionText(c))
			}
		case p.Kind != parameters.Pause:
			changed(p.Name, p.Display(e.From), p.Display(e.To))
		case e.To.Paused:
			words = append(words, "paused")
		default:
			words = append(words, "resumed")
		}
	}
	if e.From.Auto && e.To.Auto && e.From.Lateness != e.To.Lateness { // chosen by the fleet
		changed("lateness", timetext.Short(e.From.Lateness), timetext.Short(e.To.Lateness))
		changed("guard", timetext.Short(e.From.Guard), timetext.Short(e.To.Guard))
	}
	if len(words) == 0 {
		words = append(words, "the end of an override")
	}
	if !e.To.RevertAt.IsZero() {
		words = append(words, "until "+timetext.Stamp(e.To.RevertAt))
	}
	return strings.Join(words, ", ")
}
