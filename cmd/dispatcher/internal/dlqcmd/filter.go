package dlqcmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/configs"
	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/dlq"
	"dispatcher/internal/timetext"
)

// letterFlags are the flags that select dead letters.
type letterFlags struct {
	topics, reasons   []string
	since, until, key string
	limit             int
	parked            bool
	flags             *pflag.FlagSet
}

func (g *letterFlags) define(s *cli.Settings, cmd *cobra.Command) {
	f := cmd.Flags()
	g.flags = f
	f.StringSliceVar(&g.topics, "topic", nil, "dead letters of this job `TOPIC`; can be repeated (default: all of kafka.topics)")
	f.StringSliceVar(&g.reasons, "reason", nil, "only those of this `CLASS`, such as exhausted or permanent; can be repeated")
	f.StringVar(&g.since, "since", "", "only those that failed at this `TIME` or later: RFC 3339, a day, or how long ago, such as 2h")
	f.StringVar(&g.until, "until", "", "only those that failed before this `TIME`")
	f.StringVar(&g.key, "key", "", "only those with this `KEY`")
	f.BoolVar(&g.parked, "parked", false, "the jobs of <topic>.parked (sender.on_unknown: park) instead of the dead letters")
	f.IntVar(&g.limit, "limit", 0, "only the first `N` that match, partition by partition; 0: all")
	s.JobTopics(cmd, "topic")
	var classes []string
	for _, c := range deadletter.Classes() {
		classes = append(classes, string(c))
	}
	cli.Choices(cmd, "reason", classes...)
}

// given are the selecting flags that were used. A limit of 0 selects nothing.
func (g *letterFlags) given() []string {
	var used []string
	for _, name := range []string{"topic", "reason", "since", "until", "key", "limit"} {
		if g.flags.Changed(name) && (name != "limit" || g.limit != 0) {
			used = append(used, "--"+name)
		}
	}
	return used
}

// filter combines the flags, or the ids.
func (g *letterFlags) filter(cfg configs.Config, ids []string, now time.Time) (dlq.Filter, error) {
	f := dlq.Filter{Topics: cfg.Kafka.JobTopics(), Limit: g.limit, Parked: g.parked}
	if err := cli.Filled(g.flags, "topic", "reason", "since", "until"); err != nil {
		return f, err
	}
	if used := g.given(); len(ids) > 0 && len(used) > 0 {
		return f, fmt.Errorf("ids name single dead letters: leave out %s", strings.Join(used, ", "))
	}
	for _, text := range ids {
		id, err := deadletter.ParseRecordID(text)
		if err != nil {
			return f, err
		}
		f.IDs = append(f.IDs, id)
	}
	if len(g.topics) > 0 {
		f.Topics = nil
	}
	for _, name := range g.topics {
		topic, err := g.jobTopic(name, cfg.Kafka.JobTopics())
		if err != nil {
			return f, err
		}
		f.Topics = append(f.Topics, topic)
	}
	for _, r := range g.reasons {
		c := deadletter.Class(r)
		if !slices.Contains(deadletter.Classes(), c) {
			return f, fmt.Errorf("--reason %q is no class of a dead letter; the classes are %s", r, names(deadletter.Classes()))
		}
		f.Classes = append(f.Classes, c)
	}
	if g.flags.Changed("key") {
		f.Key = []byte(g.key)
	}
	if g.limit < 0 {
		return f, fmt.Errorf("--limit %d: must not be negative", g.limit)
	}
	var err error
	if f.Since, err = moment("since", g.since, now); err != nil {
		return f, err
	}
	if f.Until, err = moment("until", g.until, now); err != nil {
		return f, err
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return f, fmt.Errorf("--since %s is not before --until %s", timetext.Exact(f.Since), timetext.Exact(f.Until))
	}
	return f, nil
}

// jobTopic is the job topic that a value of --topic means. The topic of its letters may stand for it, where --parked fits.
// A job topic of the configuration means itself, whatever its name ends in.
func (g *letterFlags) jobTopic(name string, jobTopics []string) (string, error) {
	if slices.Contains(jobTopics, name) {
		return name, nil
	}
	topic, other := strings.CutSuffix(name, dlq.LettersOf("", !g.parked))
	switch {
	case other && g.parked:
		return "", fmt.Errorf("--topic %q is a topic of dead letters: leave out --parked, or give --topic %s for the parked jobs", name, topic)
	case other:
		return "", fmt.Errorf("--topic %q is a topic of parked jobs: give --parked as well, or --topic %s for the dead letters", name, topic)
	}
	return strings.TrimSuffix(name, dlq.LettersOf("", g.parked)), nil
}

func names(classes []deadletter.Class) string {
	all := make([]string, len(classes))
	for i, c := range classes {
		all[i] = string(c)
	}
	return strings.Join(all, ", ")
}

// moment reads a time, a day in UTC, or a duration before now.
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
