package limitcmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/limits"
	"dispatcher/internal/timetext"
	"dispatcher/throttle/lateness"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// printed is a document for a terminal.
type printed struct {
	*limits.Document

	first       string // name of the first limit
	unconfirmed bool   // changed just now, without --wait
}

func (s printed) show(w io.Writer) error {
	table, now := cli.Table(w), s.Settings
	_, _ = fmt.Fprintf(table, "limit %s: %s\n", s.Name, cli.Brief(now.Terms, s.Counts))
	if s.RevertAt != "" {
		_, _ = fmt.Fprintf(table, "  until %s (%s), %s\n", timetext.Stamp(now.RevertAt), soon(*s.RevertInS), cli.Following(now, s.Counts))
	}
	if s.unconfirmed {
		_, _ = fmt.Fprintf(table, "  acts within %s; no node has confirmed it yet (--wait does)\n", now.Reaction())
	} else {
		_, _ = fmt.Fprintf(table, "  %s\n", cli.Plainly(s.InForce.String(), 0))
	}
	if !now.Gate {
		_, _ = fmt.Fprintf(table, "  algorithm\t%s\t\n", now.Algorithm)
	}
	_, _ = fmt.Fprintf(table, "  usable share\t%.3f\tof the cap: %.1f calls a window\n", s.Share, s.Share*float64(now.Cap))
	cli.PrintWaste(table, s.Share, now.Terms, limit.ScopeCluster)
	if s.Slowdown != nil {
		printSlowdown(table, *s.Slowdown)
	}
	if s.Binds != nil {
		_, _ = fmt.Fprintf(table, "  binds\t%.0f %%\tof the last half minute: so long jobs waited for this limit\n", 100**s.Binds)
	}
	if now.Gate {
		_, _ = fmt.Fprintf(table, "  beside\t%s\tthe first limit, which has the guard, the lateness and the horizon\n", s.first)
	} else {
		_, _ = fmt.Fprintf(table, "  guard\t%s\t%s\n", timetext.Short(now.Guard), s.guardWhy(now))
	}
	if s.Trips != nil {
		printTrips(table, *s.Trips, now)
	}
	if s.Value != nil {
		printValue(table, *s.Value, now)
	}
	if s.Loss != nil {
		_, _ = fmt.Fprintf(table, "  waits until\t%s\tfor each value: its counts were lost at %s, or may have been (on_lost: wait)\n", s.Loss.Until, s.Loss.At)
	}
	if s.Quota != nil {
		_, _ = fmt.Fprintf(table, "  used\t%d\t%s\n", s.Quota.Used, counted(*s.Quota))
	}
	_, _ = fmt.Fprintf(table, "  acts within\t%s\ton every node that knows it\n", now.Reaction())
	if s.Changed == "" {
		_, _ = fmt.Fprintf(table, "  revision\t%d\tseeded from a file\n", s.Revision)
	} else {
		_, _ = fmt.Fprintf(table, "  revision\t%d\tof %s by %s%s\n", s.Revision, s.Changed, cli.Plainly(s.By, 0), because(cli.Plainly(s.Why, 0)))
	}
	if s.Value == nil {
		printExceptions(table, now.Exceptions)
	}
	s.printRest(table, now)
	for _, d := range s.Differs {
		_, _ = fmt.Fprintf(table, "  %s\t%s\tbut %s in this configuration, which only seeds\n", d.Field, cli.Quoted(d.Redis), cli.Quoted(d.File))
	}
	if !s.InFile {
		_, _ = fmt.Fprintln(table, "  this configuration has no limit of this name")
	}
	return table.Flush()
}

// printRest prints the settings that are set and that no other line shows.
func (s printed) printRest(table io.Writer, now limit.Settings) {
	shown := []string{"algorithm", "cap", "window", "burst", "guard", "spread", "lateness", "horizon", "paused", "exceptions"}
	for _, d := range s.Differs {
		shown = append(shown, d.Field)
	}
	unset := limit.Spec{}.Settings()
	for _, p := range parameters.All {
		if p.Of(now.Terms) && !slices.Contains(shown, p.Name) && p.Value(now) != p.Value(unset) {
			_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\n", p.Name, cli.Quoted(p.Display(now)), strings.ReplaceAll(p.About, "`", ""))
		}
	}
}

// guardWhy explains the guard.
func (s printed) guardWhy(now limit.Settings) string {
	parts := fmt.Sprintf("lateness %s, the rest for delays on the network", timetext.Short(now.Lateness))
	if !now.Auto {
		return "stated: " + parts
	}
	parts = fmt.Sprintf("auto: lateness %s, spread %s", timetext.Short(now.Lateness), timetext.Short(now.Spread))
	if s.Chosen == nil {
		return parts + "; the fleet has seen no reason for another lateness yet"
	}
	return fmt.Sprintf("%s; chosen %s: %s", parts, s.Chosen.At, cli.Plainly(s.Chosen.Why, 0))
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// printSlowdown shows the slowdown, with its reason.
func printSlowdown(table io.Writer, s limits.Slowdown) {
	_, _ = fmt.Fprintf(table, "  effective cap\t%.4g\tsince %s: %s\n", s.EffectiveCap, s.Since, cli.Plainly(s.Why, 0))
	switch {
	case s.BlockedUntil != "":
		_, _ = fmt.Fprintf(table, "  blocked until\t%s\tas the provider asked; limit release ends it\n", s.BlockedUntil)
	case s.Granted < s.EffectiveCap:
		_, _ = fmt.Fprintf(table, "  granted\t%.4g\tin a window now, and twice as much each second without a refused call\n", s.Granted)
	}
}

// printTrips prints whether the spread fits.
func printTrips(w io.Writer, r limits.RoundTrips, now limit.Settings) {
	if r.Connections == 0 {
		_, _ = fmt.Fprintln(w, "  round trips\tunknown\tno node has reported a new connection to the provider in the last 10 minutes")
		return
	}
	seconds := func(s float64) string {
		return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond).String()
	}
	fits := "not enough yet to say whether the spread fits"
	switch r.Fit {
	case lateness.SpreadTooSmall:
		fits = fmt.Sprintf("WARNING: the spread of %s is too small; --spread %s is enough", timetext.Short(now.Spread), seconds(r.SpreadS))
	case lateness.SpreadTooLarge:
		fits = fmt.Sprintf("the spread of %s is more than needed; with --spread %s the usable share is %.3f", timetext.Short(now.Spread), seconds(r.SpreadS), r.Share)
	case lateness.SpreadFits:
		fits = fmt.Sprintf("the spread of %s fits", timetext.Short(now.Spread))
	case lateness.SpreadUnknown:
	}
	_, _ = fmt.Fprintf(w, "  round trips\t%s to %s\tof %d connections to the provider in 10 minutes: %s\n", seconds(r.LowS), seconds(r.HighS), r.Connections, fits)
}

// counted says how long the units count that are used.
func counted(q limits.QuotaUse) string {
	if q.Ends == "" {
		return "of the cap, in the window that ends now"
	}
	return "of the cap; the window is over at " + q.Ends
}

// soon is when an override ends. The next node that asks Redis ends it, so an override
// may be over and still in force.
func soon(seconds float64) string {
	left := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if left <= 0 {
		return "over; the next node that asks ends it"
	}
	return "in " + left.String()
}
