package dlqcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/dlq"
)

// settling is the common part of replay and drop.
type settling struct {
	verb, done string // replay, replayed
	filter     letterFlags
	all        bool
	dry        bool
	yes        bool // without confirmation
	to         string
}

func (x *settling) define(s *cli.Settings, cmd *cobra.Command) {
	x.filter.define(s, cmd)
	cmd.Flags().BoolVar(&x.all, "all", false, x.verb+" all open dead letters; excludes filters and ids")
	cmd.Flags().BoolVar(&x.dry, "dry-run", false, "show the outcome, and change nothing")
	cmd.Flags().BoolVarP(&x.yes, "yes", "y", false, "don't ask for confirmation")
}

// settleFunc settles the dead letters that a filter selects.
type settleFunc func(context.Context, *dlq.Client, dlq.Filter) (dlq.Tally, error)

// run settles dead letters and prints the outcome. It returns an error if any are
// left.
func (x *settling) run(cmd *cobra.Command, s *cli.Settings, ids []string, asJSON bool, do settleFunc) error {
	if err := x.chosen(ids); err != nil {
		return err
	}
	client, cfg, bar, err := clientOf(s, cmd)
	if err != nil {
		return err
	}
	f, err := x.filter.filter(cfg, ids, time.Now())
	if err != nil {
		return err
	}
	if x.asks(cmd, ids) {
		do = x.confirmed(cmd, do)
	}
	tally, err := do(cmd.Context(), client, f)
	_ = bar.Clear()
	if errors.Is(err, errDeclined) {
		return err
	}
	if err == nil && tally.Left() > 0 {
		err = fmt.Errorf("%d dead letters are left", tally.Left())
	}
	err = dlqError(cmd, err)
	if asJSON {
		return errors.Join(cli.PrintJSON(cmd.OutOrStdout(), x.state(&tally, err)), err)
	}
	if err != nil && tally.Open == 0 && tally.Left() == 0 {
		return err // no dead letter was read
	}
	return errors.Join(cli.PrintLine(cmd.OutOrStdout(), strings.Join(x.lines(&tally, f), "\n")), err)
}

// chosen refuses a command that selects no dead letters.
func (x *settling) chosen(ids []string) error {
	chosen := len(ids) > 0 || len(x.filter.given()) > 0
	switch {
	case !chosen && !x.all:
		return fmt.Errorf("dlq %s: name dead letters, give a filter, or give --all", x.verb)
	case chosen && x.all:
		return fmt.Errorf("dlq %s: --all excludes ids and filters", x.verb)
	}
	return nil
}

// asks tells whether the command asks for confirmation. Dead letters that are named
// by id need none.
func (x *settling) asks(cmd *cobra.Command, ids []string) bool {
	return !x.dry && !x.yes && len(ids) == 0 && cli.IsTerminal(cmd.InOrStdin()) && cli.IsTerminal(cmd.ErrOrStderr())
}

// errDeclined says that the operator did not confirm.
var errDeclined = errors.New("not confirmed: nothing was changed")

// confirmed returns do with a trial and a question before it. If the trial finds nothing to
// settle, it is the outcome: nobody was asked about letters that arrive after it.
func (x *settling) confirmed(cmd *cobra.Command, do settleFunc) settleFunc {
	return func(ctx context.Context, client *dlq.Client, f dlq.Filter) (dlq.Tally, error) {
		x.dry = true
		trial, err := do(ctx, client, f)
		x.dry = false
		if err != nil {
			return dlq.Tally{}, err
		}
		if trial.Done == 0 {
			return trial, nil
		}
		if err := x.ask(cmd, &trial, f); err != nil {
			return dlq.Tally{}, err
		}
		return do(ctx, client, f)
	}
}

// ask shows what would be done, and on which topics, and returns nil after a yes.
func (x *settling) ask(cmd *cobra.Command, trial *dlq.Tally, f dlq.Filter) error {
	var topics []string
	for _, t := range f.Topics {
		topics = append(topics, dlq.LettersOf(t, f.Parked))
	}
	if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "%s %d of %d open dead letters of %s? [y/N] ",
		x.verb, trial.Done, trial.Open, strings.Join(topics, ", ")); err != nil {
		return err
	}
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if strings.EqualFold(strings.TrimSpace(line), "y") || strings.EqualFold(strings.TrimSpace(line), "yes") {
		return nil
	}
	return errDeclined
}

// lines are the outcome: how many dead letters are settled, and why others are not.
func (x *settling) lines(t *dlq.Tally, f dlq.Filter) []string {
	did := fmt.Sprintf("%s %d dead letters", x.done, t.Done)
	if x.dry {
		did = fmt.Sprintf("would %s %d dead letters; nothing was changed", x.verb, t.Done)
	}
	did += fmt.Sprintf(" (%d match, of %d open ones that were read)", t.Matched, t.Open)
	if t.Matched == 0 && t.Open > 0 && len(f.Classes) > 0 {
		did += "; their classes are " + classes(t)
	}
	lines := []string{did}
	for _, row := range []struct {
		n   int64
		why string
	}{
		{t.Truncated, "are truncated, and hold only a part of their job (see --whole)"},
		{t.NoTopic, "have no topic to go to; name one with --to"},
		{t.Unwritten, "were refused by Kafka, or not acknowledged in time"},
		{t.OutOfReach, "lie too far behind an open dead letter; settle that one first"},
		{int64(len(t.Settled)), "were settled before: " + some(t.Settled)},
		{int64(len(t.Missing)), "do not exist: " + some(t.Missing)},
	} {
		if row.n > 0 {
			lines = append(lines, fmt.Sprintf("  left: %d that %s", row.n, row.why))
		}
	}
	return append(lines, notes(t)...)
}

// some names the first few ids.
func some(ids []deadletter.RecordID) string {
	const few = 5
	names := texts(ids[:min(few, len(ids))])
	if len(ids) > few {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// settleState is the outcome in JSON. done counts the dead letters that were
// replayed or dropped, or would be; left is the sum of the counts after it.
type settleState struct {
	Command       string   `json:"command"`
	DryRun        bool     `json:"dry_run"`
	To            string   `json:"to,omitempty"`
	Open          int64    `json:"open"`
	Matched       int64    `json:"matched"`
	Done          int64    `json:"done"`
	Left          int64    `json:"left"`
	Truncated     int64    `json:"truncated"`
	WithoutTopic  int64    `json:"without_topic"`
	Unwritten     int64    `json:"unwritten"`
	OutOfReach    int64    `json:"out_of_reach"`
	SettledBefore []string `json:"settled_before"`
	Missing       []string `json:"missing"`
	Notes         []string `json:"notes"`
	Error         string   `json:"error,omitempty"`
}

func (x *settling) state(t *dlq.Tally, err error) settleState {
	s := settleState{
		Command: x.verb, DryRun: x.dry, To: x.to, Open: t.Open, Matched: t.Matched, Done: t.Done, Left: t.Left(),
		Truncated: t.Truncated, WithoutTopic: t.NoTopic, Unwritten: t.Unwritten, OutOfReach: t.OutOfReach,
		SettledBefore: texts(t.Settled), Missing: texts(t.Missing), Notes: append([]string{}, t.Notes...),
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
