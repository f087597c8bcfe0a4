package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"dispatcher/consumer/deadletter"

	"github.com/spf13/cobra"
)

// settling is what replay and drop have in common.
type settling struct {
	verb, done string // replay, replayed
	picks      picks
	all        bool // without a filter
	dry        bool
	yes        bool // don't ask
	to         string
}

func (x *settling) define(cmd *cobra.Command) {
	x.picks.define(cmd.Flags())
	cmd.Flags().BoolVar(&x.all, "all", false, x.verb+" all open letters, where no filter and no id is given")
	cmd.Flags().BoolVar(&x.dry, "dry-run", false, "say what would be done, and change nothing")
	cmd.Flags().BoolVarP(&x.yes, "yes", "y", false, "don't ask on a terminal")
}

func newDLQReplayCommand(s *settings, asJSON *bool) *cobra.Command {
	x := settling{verb: "replay", done: "replayed"}
	var rate float64
	var whole bool
	cmd := &cobra.Command{
		Use: "replay [ID...]", Short: "Write the jobs of dead letters to their topics again",
		Long: "Write the jobs of the open dead letters that match, or of those that are named, to the topics they came from,\n" +
			"and settle each letter once Kafka has its job. A job keeps its key, its value, its headers and its id; the\n" +
			"header x-redrive counts. A letter that was cut when it was buried holds only a part of its job, and is not\nreplayed but with --whole. To replay all, say --all.\n\n" +
			"If the command dies, up to 500 jobs that it has written may still be listed as open.",
		Example: "  dispatcher dlq replay --reason exhausted --since 2h --dry-run\n  dispatcher dlq replay jobs.dlq/3/1042 jobs.dlq/0/17",
	}
	x.define(cmd)
	cmd.Flags().StringVar(&x.to, "to", "", "write to this `TOPIC` instead")
	cmd.Flags().BoolVar(&whole, "whole", false, "take letters that were cut from the record they were cut from, where that is still there")
	cmd.Flags().Float64Var(&rate, "rate", 0, "`JOBS` a second at most; 0 is as fast as it goes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if rate != 0 && rate < 0.01 {
			return fmt.Errorf("dlq replay: --rate %g: must be at least 0.01, or 0", rate)
		}
		return x.run(cmd, s, args, *asJSON, func(ctx context.Context, desk *deadletter.Client, f deadletter.Filter) (deadletter.Tally, error) {
			return desk.Replay(ctx, f, deadletter.ReplayOptions{To: x.to, Rate: rate, Whole: whole, Dry: x.dry})
		})
	}
	return cmd
}

func newDLQDropCommand(s *settings, asJSON *bool) *cobra.Command {
	x := settling{verb: "drop", done: "dropped"}
	cmd := &cobra.Command{
		Use: "drop [ID...]", Short: "Settle dead letters without replaying them",
		Long: "Settle the open dead letters that match, or those that are named, without replaying them. They are listed no\n" +
			"more, and stay in their topic until retention deletes them. To drop all, say --all.",
		Example: "  dispatcher dlq drop --reason expired\n  dispatcher dlq drop --all --dry-run",
	}
	x.define(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return x.run(cmd, s, args, *asJSON, func(ctx context.Context, desk *deadletter.Client, f deadletter.Filter) (deadletter.Tally, error) {
			return desk.Drop(ctx, f, x.dry)
		})
	}
	return cmd
}

type settleFunc func(context.Context, *deadletter.Client, deadletter.Filter) (deadletter.Tally, error)

// run settles letters and says what came of it. Whatever is left is an error,
// and so the exit status.
func (x *settling) run(cmd *cobra.Command, s *settings, ids []string, asJSON bool, do settleFunc) error {
	if err := x.chosen(ids); err != nil {
		return err
	}
	desk, cfg, bar, err := s.letters(cmd)
	if err != nil {
		return err
	}
	f, err := x.picks.filter(cfg, ids, time.Now())
	if err != nil {
		return err
	}
	if x.asks(cmd, ids) {
		if yes, err := x.confirm(cmd, desk, f, do); err != nil || !yes {
			bar.end()
			return told(cmd, err)
		}
	}
	tally, err := do(cmd.Context(), desk, f)
	bar.end()
	if err == nil && tally.Left() > 0 {
		err = fmt.Errorf("%d letters are left", tally.Left())
	}
	err = told(cmd, err)
	if asJSON {
		return errors.Join(printJSON(cmd.OutOrStdout(), x.state(&tally, err)), err)
	}
	if err != nil && tally.Open == 0 && tally.Left() == 0 {
		return err // nothing was looked at
	}
	return errors.Join(printLines(cmd.OutOrStdout(), x.lines(&tally, f)...), err)
}

// chosen refuses a command that doesn't say which letters it means.
func (x *settling) chosen(ids []string) error {
	chosen := len(ids) > 0 || len(x.picks.given()) > 0
	switch {
	case !chosen && !x.all:
		return fmt.Errorf("dlq %s: name letters, give a filter, or say --all", x.verb)
	case chosen && x.all:
		return fmt.Errorf("dlq %s: --all excludes ids and filters", x.verb)
	}
	return nil
}

// asks reports whether somebody is there to be asked. Letters that are named one by
// one are meant.
func (x *settling) asks(cmd *cobra.Command, ids []string) bool {
	return !x.dry && !x.yes && len(ids) == 0 && isTerminal(cmd.InOrStdin()) && isTerminal(cmd.ErrOrStderr())
}

// confirm says what would be done, and asks.
func (x *settling) confirm(cmd *cobra.Command, desk *deadletter.Client, f deadletter.Filter, do settleFunc) (yes bool, err error) {
	x.dry = true
	tally, err := do(cmd.Context(), desk, f)
	x.dry = false
	if err != nil {
		return false, err
	}
	w := cmd.ErrOrStderr()
	if tally.Done == 0 {
		return true, nil // the command itself says why
	}
	if _, err := fmt.Fprintf(w, "%s %d of %d open letters? [y/N] ", x.verb, tally.Done, tally.Open); err != nil {
		return false, err
	}
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if strings.EqualFold(strings.TrimSpace(line), "y") || strings.EqualFold(strings.TrimSpace(line), "yes") {
		return true, nil
	}
	return false, printLine(w, "nothing was changed")
}

// lines say what was done, and what was not and why.
func (x *settling) lines(t *deadletter.Tally, f deadletter.Filter) []string {
	did := fmt.Sprintf("%s %d letters", x.done, t.Done)
	if x.dry {
		did = fmt.Sprintf("would %s %d letters; nothing was changed", x.verb, t.Done)
	}
	did += fmt.Sprintf(" (%d match, of %d open ones that were looked at)", t.Matched, t.Open)
	if t.Matched == 0 && t.Open > 0 && len(f.Classes) > 0 {
		did += "; their classes are " + classes(t)
	}
	lines := []string{did}
	for _, row := range []struct {
		n   int64
		why string
	}{
		{t.Truncated, "were cut when they were buried, and hold only a part of their job (see --whole)"},
		{t.NoTopic, "have no topic to go back to; name one with --to"},
		{t.Unwritten, "were not taken by Kafka, or it did not say so in time"},
		{t.OutOfReach, "lie too far behind an open letter; settle that one first"},
		{int64(len(t.Closed)), "were settled before: " + some(t.Closed)},
		{int64(len(t.Missing)), "do not exist: " + some(t.Missing)},
	} {
		if row.n > 0 {
			lines = append(lines, fmt.Sprintf("  left: %d that %s", row.n, row.why))
		}
	}
	return append(lines, notes(t)...)
}

// some are the first few of many.
func some(ids []deadletter.RecordID) string {
	const few = 5
	var names []string
	for _, id := range ids[:min(few, len(ids))] {
		names = append(names, id.String())
	}
	if len(ids) > few {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// settleState is the outcome in JSON. done counts what was replayed or dropped,
// or would have been; the sum of the others is left.
type settleState struct {
	Command       string   `json:"command"`
	DryRun        bool     `json:"dry_run"`
	To            string   `json:"to,omitempty"`
	Open          int64    `json:"open"`
	Matched       int64    `json:"matched"`
	Done          int64    `json:"done"`
	Left          int64    `json:"left"`
	Cut           int64    `json:"cut"`
	WithoutTopic  int64    `json:"without_topic"`
	Unwritten     int64    `json:"unwritten"`
	OutOfReach    int64    `json:"out_of_reach"`
	SettledBefore []string `json:"settled_before"`
	Missing       []string `json:"missing"`
	Notes         []string `json:"notes"`
	Error         string   `json:"error,omitempty"`
}

func (x *settling) state(t *deadletter.Tally, err error) settleState {
	s := settleState{
		Command: x.verb, DryRun: x.dry, To: x.to, Open: t.Open, Matched: t.Matched, Done: t.Done, Left: t.Left(),
		Cut: t.Truncated, WithoutTopic: t.NoTopic, Unwritten: t.Unwritten, OutOfReach: t.OutOfReach,
		SettledBefore: texts(t.Closed), Missing: texts(t.Missing), Notes: append([]string{}, t.Notes...),
	}
	if err != nil {
		s.Error = err.Error()
	}
	return s
}

func texts(ids []deadletter.RecordID) []string {
	all := make([]string, 0, len(ids))
	for _, id := range ids {
		all = append(all, id.String())
	}
	return all
}
