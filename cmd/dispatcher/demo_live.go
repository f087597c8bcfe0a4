//go:build !nodemo

package main

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"io"
	"maps"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"golang.org/x/sync/errgroup"

	"dispatcher/internal/demo"
)

// errInterrupted is the error after Ctrl-C.
var errInterrupted = errors.New("interrupted")

// liveDemo shows the run while it lasts, and leaves the last picture on the screen.
func liveDemo(ctx context.Context, o demo.Options, out io.Writer) (demo.Summary, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := tea.NewProgram(liveView{stop: func() { cancel(errInterrupted) }}, tea.WithOutput(out), tea.WithContext(ctx))
	var summary demo.Summary
	var run errgroup.Group
	run.Go(func() (err error) {
		summary, err = demo.Run(ctx, o, func(s demo.Snapshot) { p.Send(s) })
		p.Send(finished{})
		return err
	})
	if _, err := p.Run(); err != nil && ctx.Err() == nil {
		cancel(fmt.Errorf("live view: %w", err))
	}
	err := run.Wait()
	return summary, err
}

type finished struct{}

// liveView is bubbletea's model of a run.
type liveView struct {
	stop func()
	s    demo.Snapshot
	seen bool
	end  bool
}

func (v liveView) Init() tea.Cmd { return nil }

func (v liveView) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case demo.Snapshot:
		v.s, v.seen = msg, true
	case finished:
		v.end = true
		return v, tea.Quit
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+c" || msg.String() == "q" {
			v.stop()
		}
	}
	return v, nil
}

const barWidth = 40

func (v liveView) View() tea.View {
	if !v.seen {
		return tea.NewView("starting…\n")
	}
	s, bold := v.s, lipgloss.NewStyle().Bold(true)
	var b strings.Builder
	limits := fmt.Sprintf("one limit: %d calls in any %s", s.Cap, s.Window)
	if len(s.Binds) > 1 {
		limits = fmt.Sprintf("%d limits, of which %s: %d units in any %s", len(s.Binds), s.First, s.Cap, s.Window)
	}
	fmt.Fprintf(&b, "%s  %d nodes, %s\n\n", bold.Render("dispatcher demo"), s.Nodes, limits)
	state := ""
	if s.Paused {
		state = "  paused"
	}
	fmt.Fprintf(&b, "  rate  %s %4d of %d%s\n", meter(float64(s.Rate)/float64(max(1, s.Cap)), lipgloss.Color("2")), s.Rate, s.Cap, state)
	fmt.Fprintf(&b, "  jobs  %s %d left of %d\n", meter(float64(s.Settled)/float64(max(1, s.Jobs)), lipgloss.Color("4")), s.Jobs-s.Settled, s.Jobs)
	for _, name := range slices.Sorted(maps.Keys(s.Lanes)) {
		fmt.Fprintf(&b, "  lane  %-9s %5.0f wait\n", name, s.Lanes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Binds)) {
		waiting := ""
		if n, ok := s.Waiting[name]; ok {
			waiting = fmt.Sprintf("%5.0f wait, ", n)
		}
		fmt.Fprintf(&b, "  limit %-9s %sjobs waited for it %.0f %% of the last half minute\n", name, waiting, 100*s.Binds[name])
	}
	if s.Note != "" {
		fmt.Fprintf(&b, "  %s\n", s.Note)
	}
	fmt.Fprintf(&b, "  time  %.1fs\n", s.Elapsed.Seconds())
	if !v.end {
		b.WriteString("\n" + hintText(s) + "\nq ends the demo.\n")
	}
	return tea.NewView(b.String())
}

// meter draws a share from 0 to 1.
func meter(share float64, c color.Color) string {
	full := int(min(1, max(0, share))*barWidth + 0.5)
	return lipgloss.NewStyle().Foreground(c).Render(strings.Repeat("█", full)) + strings.Repeat("░", barWidth-full)
}
