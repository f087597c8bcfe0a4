package statuscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/overview"
	"dispatcher/internal/timetext"
	"dispatcher/throttle/control"
)

// errSilent says that nobody knows how many jobs wait.
var errSilent = errors.New("forecast: no node has said anything of late, so it is not known how many jobs wait; dispatcher status shows the nodes")

// NewForecast is `dispatcher forecast`.
func NewForecast(s *cli.Settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "forecast", Short: "Say when the jobs that wait will be gone, also under another limit", Args: cobra.NoArgs,
		Long: "Say when the jobs that wait will be gone, if no more come. With settings of the first limit as flags, say what a change\n" +
			"to them would do, and which guardrail would refuse it. Nothing is changed.",
		Example: "  dispatcher forecast\n  dispatcher forecast --cap 500 --window 1s",
	}
	cli.LimitFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		fleet, closed, err := connected(s, cmd)
		if err != nil {
			return err
		}
		defer closed()
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		f, err := fleet.Read(ctx)
		if err != nil {
			return fmt.Errorf("forecast: %w", err)
		}
		if f.Health.State == overview.Unknown {
			return errSilent
		}
		change := control.Change{Values: cli.LimitValues(cmd)}
		then, err := fleet.Preview(ctx, change)
		if err != nil {
			return fmt.Errorf("forecast: %w", cli.Flagged(err, ""))
		}
		if asJSON {
			return cli.PrintJSON(cmd.OutOrStdout(), then)
		}
		if len(change.Values) == 0 {
			return printForecast(cmd.OutOrStdout(), []overview.Preview{then})
		}
		now, err := fleet.Preview(ctx, control.Change{})
		if err != nil {
			return fmt.Errorf("forecast: %w", err)
		}
		return printForecast(cmd.OutOrStdout(), []overview.Preview{now, then})
	}
	return cmd
}

// printForecast prints a column for now, and one for the change where there is one.
func printForecast(w io.Writer, columns []overview.Preview) error {
	table := cli.Table(w)
	line := func(label string, cell func(overview.Preview) string) {
		cells := []string{label}
		for _, c := range columns {
			cells = append(cells, cell(c))
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	if len(columns) > 1 {
		_, _ = fmt.Fprintln(table, "\tNOW\tWITH THE CHANGE")
	}
	line("limit", func(p overview.Preview) string {
		return fmt.Sprintf("%d in %s", p.Cap, timetext.Short(secondsOf(p.WindowS)))
	})
	line("usable share", func(p overview.Preview) string { return fmt.Sprintf("%.3f", p.Share) })
	line("jobs", func(p overview.Preview) string { return fmt.Sprintf("%.0f", p.Jobs) })
	line("rate", func(p overview.Preview) string { return fmt.Sprintf("%.4g a second", p.PerS) })
	line("follows from", func(p overview.Preview) string {
		if p.Since == overview.FromCap {
			return "the cap"
		}
		return "the present rate"
	})
	if slices.ContainsFunc(columns, func(p overview.Preview) bool { return p.CostText() != "" }) {
		line("a job counts", func(p overview.Preview) string { return cmp.Or(p.CostText(), "one unit") })
	}
	line("gone in", func(p overview.Preview) string {
		switch {
		case p.LeftS == nil && p.PerS > 0:
			return "not within a year"
		case p.LeftS == nil:
			return "never"
		}
		return span(*p.LeftS)
	})
	line("expire", func(p overview.Preview) string { return fmt.Sprintf("%.0f of %.0f fetched", p.Expire, p.Fetched) })
	line("gone at", func(p overview.Preview) string { return cmp.Or(timetext.StampExact(p.GoneAt), "-") })
	if then := columns[len(columns)-1]; then.Refused != "" {
		_, _ = fmt.Fprintf(table, "limit set would refuse the change unless it is forced: %s\n", then.Refused)
	}
	return table.Flush()
}
