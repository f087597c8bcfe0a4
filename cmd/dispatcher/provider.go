package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/provider"
)

// simulation is what the flags of `dispatcher provider` say.
type simulation struct {
	provider.Options
	cap      int
	window   time.Duration
	interval time.Duration // from a line to the next
	asJSON   bool
}

func newProviderCommand(settings *cli.Settings) *cobra.Command {
	s := simulation{}
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "Be a simulated provider, and judge the calls",
		Long: "Be a simulated provider until SIGINT or SIGTERM. It answers every call, limits nothing, and counts: in which\n" +
			"windows it got more than the cap, wherever they begin. It prints a line when calls have come, and a last one.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if settings.File != "" || len(settings.Set) > 0 {
				return errors.New("provider: -c and --set: the provider reads no settings; use its flags, see provider --help")
			}
			if err := s.validate(); err != nil {
				return fmt.Errorf("provider: %w", err)
			}
			calmCollector()
			return s.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.Address, "listen", "127.0.0.1:9800", "where calls arrive, as `host:port`; any path will do")
	f.DurationVar(&s.Behaviour.Latency, "latency", 0, "before each answer")
	f.DurationVar(&s.Behaviour.Jitter, "jitter", 0, "up to this much more before each answer")
	f.Float64Var(&s.Behaviour.Share, "fail-rate", 0, "`share` of the calls that fail, from 0 to 1")
	f.IntVar(&s.Behaviour.Status, "fail-status", 503, "`status` of calls that fail")
	f.DurationVar(&s.Behaviour.RetryAfter, "retry-after", 0, "sent with calls that fail, in whole seconds")
	f.IntVar(&s.cap, "cap", 400, "`units` that are allowed in any window; 0: no bound")
	f.DurationVar(&s.window, "window", time.Second, "the window, 1ms to 10m")
	f.DurationVar(&s.interval, "interval", time.Second, "the time from a line to the next, at least 100ms")
	f.BoolVar(&s.asJSON, "json", false, "print each line as JSON")
	return cmd
}

func (s *simulation) validate() error {
	var errs []error
	if s.cap < 0 {
		errs = append(errs, fmt.Errorf("--cap: %d is negative; 0 is no bound", s.cap))
	}
	if s.window < time.Millisecond || s.window > 10*time.Minute {
		errs = append(errs, fmt.Errorf("--window: %v is not between 1ms and 10m", s.window))
	}
	if s.interval < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("--interval: %v is below 100ms", s.interval))
	}
	if share := s.Behaviour.Share; share < 0 || share > 1 {
		errs = append(errs, fmt.Errorf("--fail-rate: %v is not between 0 and 1", share))
	}
	if status := s.Behaviour.Status; status < 300 || status > 599 {
		errs = append(errs, fmt.Errorf("--fail-status: %d is not between 300 and 599", status))
	}
	if b := s.Behaviour; b.Latency < 0 || b.Jitter < 0 || b.RetryAfter < 0 {
		errs = append(errs, fmt.Errorf("--latency %v, --jitter %v, --retry-after %v: none may be negative", b.Latency, b.Jitter, b.RetryAfter))
	}
	return errors.Join(errs...)
}

// run serves until the context ends, and prints meanwhile.
func (s *simulation) run(ctx context.Context, out io.Writer) error {
	if s.Behaviour.Share == 0 { // none fails
		s.Behaviour.Status, s.Behaviour.RetryAfter = 0, 0
	}
	most := s.cap
	if most == 0 {
		most = math.MaxInt
	}
	p := provider.New(s.Options)
	if err := p.Up(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1) // one slot, so that the provider's end waits for no reader
	go func() { ended <- p.Run(ctx) }()

	counter := provider.NewCounter(p, provider.Contract{Window: s.window, Caps: []provider.CapFrom{{Cap: most}}})
	begun, printed := time.Now(), -1
	line := func(always bool) error {
		counts := counter.Count()
		if !always && counts.Calls == printed {
			return nil
		}
		printed = counts.Calls
		return s.print(out, tally{
			Listen: p.Addr(), UpS: time.Since(begun).Seconds(), Cap: s.cap, WindowS: s.window.Seconds(), Recent: p.Recent(s.window), Counts: counts,
		})
	}
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	failed := line(true)
	for failed == nil {
		select {
		case <-tick.C:
			failed = line(false)
		case err := <-ended:
			return errors.Join(err, line(true))
		}
	}
	cancel()
	return errors.Join(<-ended, failed)
}

// tally is one line of what came.
type tally struct {
	Listen  string  `json:"listen"`
	UpS     float64 `json:"up_s"`
	Cap     int     `json:"cap"` // 0: no bound
	WindowS float64 `json:"window_s"`
	Recent  int     `json:"recent"` // units in the last window
	provider.Counts
}

func (s *simulation) print(out io.Writer, t tally) error {
	switch {
	case s.asJSON:
		return cli.PrintJSON(out, t)
	case t.Calls == 0:
		return cli.PrintLine(out, "provider listens on "+t.Listen)
	}
	allowed := ""
	if t.Cap > 0 {
		allowed = fmt.Sprintf(" of %d allowed  windows over: %d", t.Cap, t.OverCount)
	}
	return cli.PrintLine(out, fmt.Sprintf("%7.1fs  %d calls, %d failed  %d units in the last %v, at most %d%s  %.1f %% unjudged",
		t.UpS, t.Calls, t.Failed, t.Recent, s.window, t.MaxInWindow, allowed, 100*t.Unjudged))
}
