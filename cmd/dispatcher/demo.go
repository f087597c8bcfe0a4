//go:build !nodemo

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/demo"
)

// errVerdict is for a demo that exceeded the cap, lost a job or could not be judged. The verdict, which was
// printed, says which.
var errVerdict = errors.New("demo: the verdict is not ok")

func newDemoCommand(s *cli.Settings) *cobra.Command {
	o := demo.Options{}
	var asJSON, verbose bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a whole fleet in this process, and judge it",
		Long: "Run a whole fleet in this process, with an embedded Kafka and Redis and a simulated provider that counts\n" +
			"the calls. It needs no servers. At the end it prints a verdict; the exit status is 1 if the cap was exceeded,\n" +
			"a job was lost, or this machine is too busy to judge. --set changes other settings of the nodes. A file\n" +
			"(-c) is refused: its addresses are not the demo's.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if verbose {
				o.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			}
			if err := checkDemoSettings(s); err != nil {
				return err
			}
			o.Settings = s.Set
			v, err := runDemo(cmd.Context(), o, asJSON, verbose, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			if !v.OK {
				return errVerdict
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Nodes, "nodes", 3, "`number` of nodes in the fleet")
	f.Int64Var(&o.Cap, "cap", 300, "`calls` the provider allows in any window")
	f.DurationVar(&o.Window, "window", time.Second, "the provider's window")
	f.IntVar(&o.Jobs, "jobs", 3000, "`number` of jobs to send")
	f.StringVar(&o.Scenario, "scenario", demo.Plain, "`name` of what is played: plain, or sms with limits for each sender and recipient, texts of\nseveral segments, one-time passwords that go first, and a provider that refuses calls for a while")
	cli.Choices(cmd, "scenario", demo.Plain, demo.SMS)
	f.BoolVar(&asJSON, "json", false, "print only the verdict, as one line of JSON")
	f.BoolVar(&verbose, "verbose", false, "print the nodes' logs to standard error")
	return cmd
}

// ofTheDemo are the settings of the servers and topics that the demo brings. With others its
// nodes would take real jobs, or change real limits.
var ofTheDemo = []string{"kafka.brokers", "kafka.group", "kafka.topics", "kafka.lanes", "redis", "sender.http.url", "node"} //nolint:gochecknoglobals // a constant list

func checkDemoSettings(s *cli.Settings) error {
	if s.File != "" {
		return fmt.Errorf("demo: -c %s: the demo reads no file; use --set path=value", s.File)
	}
	for _, setting := range s.Set {
		path, _, _ := strings.Cut(setting, "=")
		for _, own := range ofTheDemo {
			if path == own || strings.HasPrefix(path, own+".") {
				return fmt.Errorf("demo: --set %s: the demo has a %s of its own; leave the setting out", path, own)
			}
		}
	}
	return nil
}

func runDemo(ctx context.Context, o demo.Options, asJSON, verbose bool, out io.Writer) (demo.Summary, error) {
	// A fleet, a broker, a Redis and a provider share one small heap here. With the
	// default, frequent collections would delay the provider that measures.
	defer debug.SetGCPercent(debug.SetGCPercent(calmPercent))
	v, err := watchDemo(ctx, o, asJSON, verbose, out)
	switch {
	case err != nil:
		return v, fmt.Errorf("demo: %w", err)
	case asJSON:
		return v, cli.PrintJSON(out, v)
	}
	_, err = fmt.Fprint(out, verdictText(v))
	return v, err
}

// watchDemo shows a live view on a terminal, and a line a second elsewhere.
func watchDemo(ctx context.Context, o demo.Options, asJSON, verbose bool, out io.Writer) (demo.Summary, error) {
	if asJSON {
		return demo.Run(ctx, o, func(demo.Snapshot) {})
	}
	if !verbose && cli.IsTerminal(out) {
		return liveDemo(ctx, o, out)
	}
	var next time.Duration // of a line
	return demo.Run(ctx, o, func(s demo.Snapshot) {
		if next == 0 {
			_, _ = fmt.Fprint(out, hintText(s), "\n")
		}
		if s.Elapsed < next {
			return
		}
		next = s.Elapsed.Truncate(time.Second) + time.Second
		_, _ = fmt.Fprintln(out, statusLine(s))
	})
}

func statusLine(s demo.Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5.1fs  %d of %d in the last %s  %d jobs left  %d nodes", s.Elapsed.Seconds(), s.Rate, s.Cap, s.Window, s.Jobs-s.Settled, s.Nodes)
	for _, name := range slices.Sorted(maps.Keys(s.Lanes)) {
		fmt.Fprintf(&b, "  %s: %.0f wait", name, s.Lanes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Waiting)) {
		fmt.Fprintf(&b, ", %.0f for %s", s.Waiting[name], name)
	}
	switch {
	case s.Note != "":
		b.WriteString("  " + s.Note)
	case s.Paused:
		b.WriteString("  paused")
	}
	return b.String()
}

// hintText names the commands to try from a second terminal.
func hintText(s demo.Snapshot) string {
	me := program()
	hint := ""
	if s.PageAddr != "" {
		hint = fmt.Sprintf("The page of the fleet's operators, while it runs (longer with --jobs 100000):\n  http://%s/\n", s.PageAddr)
	}
	hint += fmt.Sprintf("From a second terminal:\n"+
		"  %s limit set %s --cap 150 --set redis.addrs=%s\n"+
		"  %s limit pause %s --set redis.addrs=%s\n"+
		"  %s limit resume %s --set redis.addrs=%s\n", me, s.First, s.RedisAddr, me, s.First, s.RedisAddr, me, s.First, s.RedisAddr)
	if len(s.Lanes) > 0 { // jobs of other forms would be dead letters
		return hint
	}
	return hint + fmt.Sprintf("  seq 1000 | %s enqueue --set kafka.brokers=%s\n", me, s.Brokers)
}

// program is how the user began it.
func program() string {
	if me := os.Args[0]; !strings.Contains(me, "go-build") {
		return me
	}
	return "go run ./cmd/dispatcher"
}

func verdictText(v demo.Summary) string {
	now := ""
	if v.Changes > 0 {
		now = " now"
	}
	text := fmt.Sprintf("\nVerdict: %s\n"+
		"  sent      %d calls for %d jobs, as the provider counts\n"+
		"  lost      %d\n"+
		"  repeated  %d\n"+
		"  fullest   %d in one window of %gs; %d are allowed%s\n"+
		"  used      %.1f %% of the cap, with a guard of %s\n"+
		"  late      %d slots came too late to be used, and were not\n"+
		"  redis     %.2f script calls a job\n"+
		"  unjudged  %.1f %% of the windows: in those the judge itself was held up\n",
		headline(v), v.Sent, v.Jobs, v.Lost, v.Repeated, v.MaxInWindow, v.WindowS, v.Cap, now, 100*v.Utilisation, guardOf(v), v.LateSlots, v.RedisCallsPerJob, 100*v.Unjudged)
	if v.Refused > 0 {
		text += fmt.Sprintf("  refused   %d calls, which the provider answered with 429; their jobs were called again\n", v.Refused)
	}
	text += othersText(v.Limits)
	if v.Urgent != nil {
		text += fmt.Sprintf("  urgent    %d jobs of the first lane: half were called within %.0f ms of their write, 99 %% within %.0f ms; half let %d other jobs pass at most\n", v.Urgent.Jobs, 1000*v.Urgent.P50S, 1000*v.Urgent.P99S, v.Urgent.PassedP50)
	}
	if v.Changes > 0 {
		text += fmt.Sprintf("  changes   %d to the limit; each window was judged by the limit in force\n", v.Changes)
	}
	if v.Unjudged > 0.1 {
		text += "  note      this machine is busy; a quiet one uses more of the cap, and more windows can be judged\n"
	}
	if v.WindowWasChanged {
		text += "  note      the window was changed as well; all was judged by the first one\n"
	}
	return text
}

// othersText says how the limits after the first were kept.
func othersText(limits []demo.Judged) string {
	var text strings.Builder
	for _, l := range limits {
		fmt.Fprintf(&text, "  %-9s %d at most in one window for one of them; %d are allowed\n", l.Name, l.MaxInWindow, l.Cap)
	}
	return text.String()
}

// headline is the verdict in a line: OK and the share used, or the faults.
func headline(v demo.Summary) string {
	var faults []string
	if v.BrokenWindows > 0 {
		faults = append(faults, fmt.Sprintf("%d windows held more calls than were allowed", v.BrokenWindows))
	}
	if v.Excess > 0 {
		faults = append(faults, fmt.Sprintf("there were %d calls more than all windows together allow", v.Excess))
	}
	if v.Unproven {
		faults = append(faults, fmt.Sprintf("only %.0f %% of the windows could be judged, since this machine is too busy: try again on a quiet one", 100*(1-v.Unjudged)))
	}
	for _, l := range v.Limits {
		if l.Excess > 0 {
			faults = append(faults, fmt.Sprintf("there were %d more of the limit %s than all windows together allow", l.Excess, l.Name))
		}
		if l.Broken > 0 {
			faults = append(faults, fmt.Sprintf("%d windows of the limit %s held more than were allowed", l.Broken, l.Name))
		}
	}
	if v.Lost > 0 {
		faults = append(faults, fmt.Sprintf("%d jobs were lost", v.Lost))
	}
	switch {
	case !v.OK:
		return "NOT OK: " + strings.Join(faults, ", ")
	case v.Unjudged > 0.1:
		return fmt.Sprintf("OK, %.1f %% of the cap used; %.0f %% of the windows could be judged", 100*v.Utilisation, 100*(1-v.Unjudged))
	}
	return fmt.Sprintf("OK, %.1f %% of the cap used", 100*v.Utilisation)
}

// guardOf is the guard at the end, and whose choice it was.
func guardOf(v demo.Summary) string {
	text := v.Guard.String()
	if v.Chosen > 0 {
		text += ", which the fleet chose since its nodes were held up"
	}
	return text
}
