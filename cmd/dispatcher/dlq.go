package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"dispatcher/consumer/deadletter"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dispatcher/configs"
	"dispatcher/internal/node"
)

const dlqHelp = `Look at the dead letters of job topics, and settle each by replaying or dropping it.

A letter stays on <topic>.dlq until retention deletes it; what was settled is remembered by Kafka, as the
offset of the group <group>.<topic>.dlq, and no longer listed. That reaches 8192 offsets beyond the first
open letter: one further away can be settled only when those before it are. Kafka forgets the offset when
nothing was settled for the brokers' offsets.retention.minutes, a week by default; then all letters that
are still there are open again.

With sender.on_unknown: park, --parked means the jobs on <topic>.parked: those that may have been done. Look
into them with the provider, then drop them or replay them.

Of several commands that settle letters of a topic one works and the others wait, for 30 s at most.`

func newDLQCommand(s *settings) *cobra.Command {
	var asJSON bool
	g := group("dlq", "Look at dead letters, replay them or drop them",
		newDLQListCommand(s, &asJSON),
		newDLQShowCommand(s, &asJSON),
		newDLQReplayCommand(s, &asJSON),
		newDLQDropCommand(s, &asJSON),
	)
	g.Long = dlqHelp
	g.PersistentFlags().BoolVar(&asJSON, "json", false, "print JSON")
	return g
}

// picks are the flags by which letters are picked.
type picks struct {
	topics, reasons   []string
	since, until, key string
	limit             int
	parked            bool
	flags             *pflag.FlagSet
}

func (p *picks) define(f *pflag.FlagSet) {
	p.flags = f
	f.StringSliceVar(&p.topics, "topic", nil, "dead letters of this job `TOPIC`; can be repeated (default: all of kafka.topics)")
	f.StringSliceVar(&p.reasons, "reason", nil, "only of this `CLASS`, such as exhausted or permanent; can be repeated")
	f.StringVar(&p.since, "since", "", "only those that failed at this `TIME` or later: RFC 3339, a day, or how long ago, such as 2h")
	f.StringVar(&p.until, "until", "", "only those that failed before this `TIME`")
	f.StringVar(&p.key, "key", "", "only those with this `KEY`")
	f.BoolVar(&p.parked, "parked", false, "the jobs of <topic>.parked (sender.on_unknown: park) in place of the dead letters")
	f.IntVar(&p.limit, "limit", 0, "the first `N` that match, partition by partition; 0 is all")
}

// given are the flags among them that were used.
func (p *picks) given() []string {
	var used []string
	for _, name := range []string{"topic", "reason", "since", "until", "key", "limit"} {
		if p.flags.Changed(name) {
			used = append(used, "--"+name)
		}
	}
	return used
}

// filter is what the flags or the ids come to.
func (p *picks) filter(cfg configs.Config, ids []string, now time.Time) (deadletter.Filter, error) {
	f := deadletter.Filter{Topics: cfg.Kafka.JobTopics(), Limit: p.limit, Parked: p.parked}
	if used := p.given(); len(ids) > 0 && len(used) > 0 {
		return f, fmt.Errorf("ids name letters one by one: leave out %s", strings.Join(used, ", "))
	}
	for _, text := range ids {
		id, err := deadletter.ParseRecordID(text)
		if err != nil {
			return f, err
		}
		f.IDs = append(f.IDs, id)
	}
	if len(p.topics) > 0 {
		f.Topics = nil
	}
	for _, t := range p.topics {
		f.Topics = append(f.Topics, strings.TrimSuffix(strings.TrimSuffix(t, ".dlq"), ".parked"))
	}
	for _, r := range p.reasons {
		c := deadletter.Class(r)
		if !slices.Contains(deadletter.Classes(), c) {
			return f, fmt.Errorf("--reason %q is no class of a dead letter; these are: %s", r, joined(deadletter.Classes()))
		}
		f.Classes = append(f.Classes, c)
	}
	if p.flags.Changed("key") {
		f.Key = []byte(p.key)
	}
	if p.limit < 0 {
		return f, fmt.Errorf("--limit %d: must not be negative", p.limit)
	}
	var err error
	if f.Since, err = moment("since", p.since, now); err != nil {
		return f, err
	}
	if f.Until, err = moment("until", p.until, now); err != nil {
		return f, err
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return f, fmt.Errorf("--since %s is not before --until %s", exact(f.Since), exact(f.Until))
	}
	return f, nil
}

func joined(classes []deadletter.Class) string {
	names := make([]string, len(classes))
	for i, c := range classes {
		names[i] = string(c)
	}
	return strings.Join(names, ", ")
}

// moment reads a time, a day in UTC, or how long ago something was.
func moment(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return time.Time{}, fmt.Errorf("--%s %q: must be a time as 2026-01-02T15:04:05Z, a day as 2026-01-02, or how long ago as 2h30m", flag, text)
	}
	return now.Add(-d), nil
}

// letters connects to the dead letters, and draws a bar of what is done.
func (s *settings) letters(cmd *cobra.Command) (*deadletter.Client, configs.Config, bar, error) {
	cfg, err := s.load(toManage, nil)
	if err != nil {
		return nil, cfg, bar{}, err
	}
	conn, err := node.KafkaConnection(cfg, newLogger(cfg, cmd.ErrOrStderr()))
	if err != nil {
		return nil, cfg, bar{}, err
	}
	b := newLetterBar(cmd)
	desk, err := deadletter.NewClient(deadletter.ClientOptions{
		Connection: conn, Group: cfg.Kafka.Group,
		Progress: func(passed, all int64) {
			if b.shown != nil {
				b.shown.ChangeMax64(max(all, 1))
				b.at(passed)
			}
		},
	})
	return desk, cfg, b, err
}

// newLetterBar makes a bar that counts offsets. A list has none: its lines show
// that it goes on.
func newLetterBar(cmd *cobra.Command) bar {
	if w := cmd.ErrOrStderr(); cmd.Name() != "list" && isTerminal(w) {
		return bar{progressbar.NewOptions64(1,
			progressbar.OptionSetWriter(w),
			progressbar.OptionSetDescription(cmd.Name()),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)}
	}
	return bar{}
}

// plainly shows text from elsewhere so that it can't act on a terminal or break
// a table, cut to so many runes; 0 is all.
func plainly(text string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; most > 0 && n > most {
			b.WriteString("…")
			break
		}
		switch {
		case r == utf8.RuneError || !unicode.IsPrint(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// textOrHex shows bytes: what is text as it is, all else in hexadecimal.
func textOrHex(raw []byte, most int) string {
	if utf8.Valid(raw) {
		return plainly(string(raw), most)
	}
	cut := ""
	if most > 0 && len(raw) > most/2 {
		raw, cut = raw[:most/2], "…"
	}
	return fmt.Sprintf("0x%x%s", raw, cut)
}

// told is what an error of a command is called. An interrupt is named as such.
func told(cmd *cobra.Command, err error) error {
	switch {
	case err == nil:
		return nil
	case cmd.Context().Err() != nil:
		return fmt.Errorf("dlq %s: interrupted", cmd.Name())
	}
	return fmt.Errorf("dlq %s: %w", cmd.Name(), err)
}

func printLines(w io.Writer, lines ...string) error {
	for _, line := range lines {
		if err := printLine(w, line); err != nil {
			return err
		}
	}
	return nil
}
