package whycmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/configs"
	"dispatcher/internal/node"
	"dispatcher/internal/why"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

const (
	timeout = 5 * time.Second
	// patience is how long nodes are waited for that do not answer.
	patience = 2 * time.Second
)

// New is the command.
func New(s *cli.Settings) *cobra.Command {
	var asJSON, isJob bool
	cmd := &cobra.Command{
		Use: "why JOB|LIMIT", Short: "Say what a job or a limit of the running fleet waits for", Args: cli.OneName("job or limit", "JOB|LIMIT"),
		Long: "Say what a job or a limit of the running fleet waits for. JOB is the job's id, or its topic/partition/offset.\n" +
			"All nodes are asked, through Redis.",
		Example: "  dispatcher why order-17\n  dispatcher why jobs/3/1284\n  dispatcher why recipient",
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&isJob, "job", false, "the name is a job's, although a limit has it too")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := s.Manage(nil)
		if err != nil {
			return err
		}
		q := why.Question{Job: args[0]}
		if _, isLimit := cfg.Stated(args[0]); isLimit && !isJob {
			q = why.Question{Limit: args[0]}
		}
		r, err := ask(cmd, cfg, q)
		if err != nil {
			return err
		}
		if asJSON {
			return errors.Join(cli.PrintJSON(cmd.OutOrStdout(), r), r.unknown())
		}
		return errors.Join(r.print(cmd.OutOrStdout()), r.unknown())
	}
	return cmd
}

// ask asks all nodes that work.
func ask(cmd *cobra.Command, cfg configs.Config, q why.Question) (report, error) {
	r := report{asked: q, Silent: []string{}}
	if cfg.Limits[0].Scope == limit.ScopeNode {
		return r, errors.New("each node keeps a limit of its own (limits.0.scope: node), so there is no Redis to ask them through: look at /readyz and the log of each node")
	}
	rdb, err := node.RedisClient(cfg, cli.Logger(cfg, cmd.ErrOrStderr()), timeout)
	if err != nil {
		return r, err
	}
	defer func() { _ = rdb.Close() }() // nothing is under way that its error could concern
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	fleet, err := control.NewControl(rdb, cfg.Redis.Namespace, cfg.Limits[0].Name)
	if err != nil {
		return r, err
	}
	nodes, err := fleet.Nodes(ctx)
	if err != nil && !errors.Is(err, control.ErrUnknownLimit) {
		return r, err
	}
	nodes = slices.DeleteFunc(nodes, control.Node.Missing)
	if r.Nodes = len(nodes); r.Nodes == 0 {
		return r, fmt.Errorf("no node of namespace %s works: its jobs wait in Kafka", cfg.Redis.Namespace)
	}
	wait, end := context.WithTimeout(ctx, patience)
	defer end()
	answers, err := why.Ask(wait, rdb, cfg.Redis.Namespace, q, r.Nodes)
	if err != nil {
		return r, err
	}
	r.take(answers)
	for _, n := range nodes {
		if !slices.ContainsFunc(answers, func(a why.Answer) bool { return a.Node == n.Name }) {
			r.Silent = append(r.Silent, n.Name)
		}
	}
	return r, nil
}

// report is what the nodes said.
type report struct {
	Nodes    int       `json:"nodes"`              // that work
	Silent   []string  `json:"silent"`             // of these, that did not answer
	Jobs     []held    `json:"jobs,omitempty"`     // that match
	Progress *progress `json:"progress,omitempty"` // how far the job's partition has come
	Limit    []counts  `json:"limits,omitempty"`   // the limit, as each node sees it

	asked why.Question
}

// held is a job on a node.
type held struct {
	Node string `json:"node"`
	why.Job
}

// progress is how far a partition has come, as the node says that works it.
type progress struct {
	Node string `json:"node"`
	why.Progress
}

// counts is a limit on a node.
type counts struct {
	Node string `json:"node"`
	why.Limit
}

// take sorts what the nodes said, by their names.
func (r *report) take(answers []why.Answer) {
	slices.SortFunc(answers, func(a, b why.Answer) int { return cmp.Compare(a.Node, b.Node) })
	for _, a := range answers {
		for _, j := range a.Jobs {
			r.Jobs = append(r.Jobs, held{a.Node, j})
		}
		if a.Progress != nil {
			r.Progress = &progress{a.Node, *a.Progress}
		}
		if a.Limit != nil {
			r.Limit = append(r.Limit, counts{a.Node, *a.Limit})
		}
	}
}
