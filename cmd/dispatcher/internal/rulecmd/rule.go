package rulecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/audit"
	"dispatcher/internal/fault"
	"dispatcher/internal/overview"
	"dispatcher/internal/rules"
	"dispatcher/internal/timetext"
	"dispatcher/internal/why"
)

// timeout bounds what Redis is asked for, and the wait for the nodes.
const timeout = 5 * time.Second

// flags are those of a new rule.
type flags struct {
	when, until, by, why string
	lasts                time.Duration
	preview, asJSON      bool
}

// NewCancel is `dispatcher cancel`.
func NewCancel(s *cli.Settings) *cobra.Command {
	return newCommand(s, rules.Cancel, "cancel --when EXPRESSION --for TIME", "Dead-letter jobs of the running fleet before they are called",
		"Dead-letter the jobs for which an expression is true, until a time, before they are called. They are of the class\n"+
			"cancelled: dispatcher dlq replay calls them after all. The command returns when every node knows the rule. It fails if\n"+
			"none works or one does not know the rule in time: the rule is kept all the same.",
		`  dispatcher cancel --when 'job.headers["campaign"] == "spring"' --for 24h --why "wrong price"`)
}

// NewHold is `dispatcher hold`.
func NewHold(s *cli.Settings) *cobra.Command {
	return newCommand(s, rules.Hold, "hold --when EXPRESSION --until TIME", "Have jobs of the running fleet wait",
		"Have the jobs for which an expression is true wait, until a time. Other jobs go past them, but those of the same key\n"+
			"with order: key. The command returns when every node knows the rule. It fails if none works or one does not know the\n"+
			"rule in time: the rule is kept all the same.",
		`  dispatcher hold --when 'job.lane == "news"' --until 2026-11-30T08:00:00Z --why "not at night"`)
}

func newCommand(s *cli.Settings, kind rules.Kind, use, short, long, example string) *cobra.Command {
	var f flags
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: cobra.NoArgs}
	set := cmd.Flags()
	set.StringVar(&f.when, "when", "", "`expression` that is true for the jobs: see Expressions in docs/reference.md")
	set.DurationVar(&f.lasts, "for", 0, "end the rule after this `time`, such as 24h")
	set.StringVar(&f.until, "until", "", "end the rule at this `time`, such as 2026-11-30T18:00:00Z")
	set.StringVar(&f.why, "why", "", "`reason`, for the history and the dead letters")
	set.StringVar(&f.by, "by", "", "`author`, for the history (default: user@host)")
	set.BoolVar(&f.preview, "preview", false, "only count the fetched jobs that match; change nothing")
	set.BoolVar(&f.asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return connected(s, cmd, func(ctx context.Context, r overview.Reader) error {
			if f.preview {
				return preview(ctx, r, cmd.OutOrStdout(), f)
			}
			return add(ctx, cmd, r, kind, f)
		})
	}
	return cmd
}

// connected loads the configuration, and connects.
func connected(s *cli.Settings, cmd *cobra.Command, do func(context.Context, overview.Reader) error) error {
	r, closed, err := s.Redis(cmd, timeout)
	if errors.Is(err, cli.ErrNoRedis) {
		return errors.New("each node keeps a limit of its own (limits.0.scope: node), and rules need Redis: stop the nodes, or pause the producers")
	}
	if err != nil {
		return err
	}
	defer closed()
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*timeout)
	defer cancel()
	return flagged(do(ctx, overview.Reader{Reader: r}))
}

// flagged names the flag of a refused value.
func flagged(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); !ok {
		return err
	}
	var all []error
	for _, e := range fault.All(err) {
		all = append(all, &fault.Error{Field: "--" + e.Field, Value: e.Value, Remedy: e.Remedy})
	}
	return errors.Join(all...)
}

func preview(ctx context.Context, r overview.Reader, w io.Writer, f flags) error {
	if err := rules.CheckWhen(f.when); err != nil {
		return err
	}
	m, err := why.CountAll(ctx, r.Redis, r.Config.Redis.Namespace, r.First(), f.when)
	if err != nil {
		return err
	}
	return printCount(w, m, f.asJSON)
}

// printCount fails where a node did not answer: a script would take the count for all.
func printCount(w io.Writer, m why.Count, asJSON bool) error {
	var silent error
	if len(m.Silent) > 0 {
		silent = fmt.Errorf("%d of %d nodes did not answer, so more jobs may match: %s", len(m.Silent), m.Nodes, strings.Join(m.Silent, ", "))
	}
	if asJSON {
		return errors.Join(cli.PrintJSON(w, m), silent)
	}
	text := fmt.Sprintf("%d of the %d jobs that %d nodes have fetched match; those still in Kafka are looked at as they are fetched", m.Jobs, m.Held, m.Nodes-len(m.Silent))
	if m.Failed > 0 {
		text += fmt.Sprintf("; the expression fails on %d jobs, which count as not matching", m.Failed)
	}
	return errors.Join(cli.PrintLine(w, text), silent)
}

func add(ctx context.Context, cmd *cobra.Command, r overview.Reader, kind rules.Kind, f flags) error {
	rule := rules.Rule{Kind: kind, When: f.when, Why: f.why, By: cmp.Or(f.by, cli.Operator())}
	if err := audit.CheckBy(f.by); err != nil {
		return err
	}
	switch {
	case (f.until == "") == (f.lasts == 0):
		return fault.New("for", f.lasts, "say when the rule ends: --for, such as 24h, or --until, such as 2026-11-30T18:00:00Z")
	case f.lasts < 0:
		return fault.New("for", f.lasts, "must be above 0")
	case f.until != "":
		var err error
		if rule.Until, err = rules.ParseUntil(f.until); err != nil {
			return err
		}
	}
	rule, revision, err := r.RuleStore().Add(ctx, rule, f.lasts)
	if err != nil {
		return err
	}
	return await(ctx, cmd.OutOrStdout(), r, rule, revision, f.asJSON, "until "+timetext.Stamp(rule.Until))
}

// await waits for the nodes, and prints the rule. A node that does not know it is an error, and so is a fleet without nodes.
func await(ctx context.Context, w io.Writer, r overview.Reader, rule rules.Rule, revision int64, asJSON bool, what string) error {
	wait, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	in, err := r.AwaitRules(wait, revision)
	switch {
	case err != nil:
		err = fmt.Errorf("the change is made, but which nodes know it could not be read: %w", err)
	case in.Of == 0:
		err = fmt.Errorf("the change is made, but no node works here; it holds for those that start. If nodes should work, check redis.addrs, redis.namespace: %q and limits.0.name: %q",
			r.Config.Redis.Namespace, r.First())
	case len(in.Lacking) > 0:
		err = fmt.Errorf("%d of %d nodes do not know it after %s", len(in.Lacking), in.Of, timeout)
	}
	if asJSON {
		return errors.Join(cli.PrintJSON(w, overview.ChangedRule{Rule: rule, InForce: in}), err)
	}
	text := fmt.Sprintf("rule %s: %s when %s, %s", rule.ID, rule.Kind, cli.Plainly(rule.When, 0), what)
	if in.Of > 0 {
		text += ", " + in.String()
	}
	return errors.Join(cli.PrintLine(w, text), err)
}

// NewRules is `dispatcher rules`.
func NewRules(s *cli.Settings) *cobra.Command {
	var asJSON bool
	g := cli.Group("rules", "Show or end the rules that cancel and hold jobs", newList(s, &asJSON), newEnd(s, &asJSON), newHistory(s, &asJSON))
	g.PersistentFlags().BoolVar(&asJSON, "json", false, "print JSON")
	return g
}

func newList(s *cli.Settings, asJSON *bool) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the rules that are in force", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return connected(s, cmd, func(ctx context.Context, r overview.Reader) error {
			all, err := r.Rules(ctx)
			if err != nil {
				return err
			}
			if *asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), all)
			}
			return list(cmd.OutOrStdout(), all)
		})
	}}
}

func list(w io.Writer, all overview.Rules) error {
	if len(all.Rules) == 0 {
		return cli.PrintLine(w, "no rule is in force")
	}
	table := cli.Table(w)
	_, _ = fmt.Fprintln(table, "RULE\tDOES\tUNTIL\tBY\tWHEN\tWHY")
	for _, r := range all.Rules {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Kind, timetext.Stamp(r.Until), cli.Plainly(r.By, 0), cli.Plainly(r.When, 0), cli.Plainly(r.Why, 0))
	}
	return errors.Join(table.Flush(), cli.PrintLine(w, all.InForce.String()))
}

func newEnd(s *cli.Settings, asJSON *bool) *cobra.Command {
	var by, reason string
	cmd := &cobra.Command{Use: "end RULE", Short: "End a rule before its time", Args: cli.OneName("rule", "RULE"), Example: "  dispatcher rules end 3 --why \"the price is right again\""}
	cmd.Flags().StringVar(&reason, "why", "", "`reason`, for the history")
	cmd.Flags().StringVar(&by, "by", "", "`author`, for the history (default: user@host)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return connected(s, cmd, func(ctx context.Context, r overview.Reader) error {
			if err := audit.CheckBy(by); err != nil {
				return err
			}
			ended, revision, err := r.RuleStore().End(ctx, args[0], cmp.Or(by, cli.Operator()), reason)
			if err != nil {
				return err
			}
			return await(ctx, cmd.OutOrStdout(), r, ended, revision, *asJSON, "ended")
		})
	}
	return cmd
}

func newHistory(s *cli.Settings, asJSON *bool) *cobra.Command {
	n := 20
	cmd := &cobra.Command{Use: "history", Short: "List the last changes of the rules", Args: cobra.NoArgs}
	cmd.Flags().IntVarP(&n, "number", "n", n, "`number` of changes, the newest first")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return connected(s, cmd, func(ctx context.Context, r overview.Reader) error {
			if n < 1 || n > 1000 {
				return fault.New("number", n, "must be from 1 to 1000")
			}
			events, err := r.RuleStore().Events(ctx, n)
			if err != nil {
				return err
			}
			if *asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), events)
			}
			for _, e := range events {
				err = errors.Join(err, cli.PrintLine(cmd.OutOrStdout(), fmt.Sprintf("%s  %s  %s", timetext.Stamp(e.At), cli.Plainly(e.By, 0), cli.Plainly(e.Text, 0))))
			}
			return err
		})
	}
	return cmd
}
