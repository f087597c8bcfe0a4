package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/throttle/control"
)

// patience is how long nodes are waited for that do not answer.
const patience = 2 * time.Second

// Report is what the nodes of a fleet said.
type Report struct {
	Nodes    int         `json:"nodes"`              // that work
	Silent   []string    `json:"silent"`             // of these, that did not answer
	Jobs     []JobOf     `json:"jobs,omitempty"`     // that match
	Progress *ProgressOf `json:"progress,omitempty"` // how far the job's partition has come
	Limit    []LimitOf   `json:"limits,omitempty"`   // the limit, as each node sees it
	Matching *Matching   `json:"matching,omitempty"` // of all nodes that answered
	Asked    Question    `json:"-"`
}

// JobOf is a job on a node.
type JobOf struct {
	Node string `json:"node"`
	Job
}

// ProgressOf is how far a partition has come, as the node says that works it.
type ProgressOf struct {
	Node string `json:"node"`
	Progress
}

// LimitOf is a limit on a node.
type LimitOf struct {
	Node string `json:"node"`
	Limit
}

// AskAll asks all nodes that work. limit is the fleet's first one, by which they are known. It waits for two seconds for those
// that do not answer.
func AskAll(ctx context.Context, rdb redis.UniversalClient, namespace, limit string, q Question) (Report, error) {
	r := Report{Asked: q, Silent: []string{}}
	fleet, err := control.NewControl(rdb, namespace, limit)
	if err != nil {
		return r, err
	}
	nodes, err := fleet.Nodes(ctx)
	if err != nil && !errors.Is(err, control.ErrUnknownLimit) {
		return r, err
	}
	nodes = slices.DeleteFunc(nodes, control.Node.Missing)
	if r.Nodes = len(nodes); r.Nodes == 0 {
		return r, fmt.Errorf("no node of namespace %s works: its jobs wait in Kafka", namespace)
	}
	names := make([]string, 0, len(nodes))
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	wait, end := context.WithTimeout(ctx, patience)
	defer end()
	answers, err := Ask(wait, rdb, namespace, q, names)
	if err != nil {
		return r, err
	}
	r.take(answers)
	for _, name := range names {
		if !slices.ContainsFunc(answers, func(a Answer) bool { return a.Node == name }) {
			r.Silent = append(r.Silent, name)
		}
	}
	return r, nil
}

// Count is for how many jobs of the fleet an expression is true.
type Count struct {
	Nodes  int      `json:"nodes"`  // that work
	Silent []string `json:"silent"` // of these, that did not answer
	Matching
}

// CountAll asks as [AskAll] does.
func CountAll(ctx context.Context, rdb redis.UniversalClient, namespace, limit, when string) (Count, error) {
	r, err := AskAll(ctx, rdb, namespace, limit, Question{When: when})
	c := Count{Nodes: r.Nodes, Silent: r.Silent}
	if r.Matching != nil { // some node answered
		c.Matching = *r.Matching
	}
	return c, err
}

// take sorts what the nodes said, by their names.
func (r *Report) take(answers []Answer) {
	slices.SortFunc(answers, func(a, b Answer) int { return cmp.Compare(a.Node, b.Node) })
	for _, a := range answers {
		for _, j := range a.Jobs {
			r.Jobs = append(r.Jobs, JobOf{a.Node, j})
		}
		if a.Progress != nil {
			r.Progress = &ProgressOf{a.Node, *a.Progress}
		}
		if m := a.Matching; m != nil {
			if r.Matching == nil {
				r.Matching = &Matching{}
			}
			r.Matching.Jobs, r.Matching.Failed, r.Matching.Held = r.Matching.Jobs+m.Jobs, r.Matching.Failed+m.Failed, r.Matching.Held+m.Held
		}
		if a.Limit != nil {
			r.Limit = append(r.Limit, LimitOf{a.Node, *a.Limit})
		}
	}
}
