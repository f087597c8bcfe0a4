package overview

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dispatcher/internal/limits"
	"dispatcher/internal/rules"
	"dispatcher/throttle/control"
)

// Rules are the rules by which operators cancel and hold jobs, and on which nodes they are in force.
type Rules struct {
	rules.List

	InForce limits.InForce `json:"in_force"`
}

// ChangedRule is a rule that was made or ended.
type ChangedRule struct {
	rules.Rule

	InForce limits.InForce `json:"in_force"` // on which nodes it acts, or has ended
}

// Rules are those that have not ended.
func (r Reader) Rules(ctx context.Context) (Rules, error) {
	list, _, err := r.RuleStore().Read(ctx)
	if err != nil {
		return Rules{}, err
	}
	if list.Rules == nil {
		list.Rules = []rules.Rule{}
	}
	in, err := r.RulesInForce(ctx, list.Revision)
	return Rules{list, in}, err
}

// RuleStore keeps the rules.
func (r Reader) RuleStore() *rules.Store { return rules.NewStore(r.Redis, r.Config.Redis.Namespace) }

// RulesInForce counts the nodes that know the rules of a revision. Where Redis has no first limit yet, no node works.
func (r Reader) RulesInForce(ctx context.Context, revision int64) (limits.InForce, error) {
	in := limits.InForce{Lacking: []string{}}
	operator, err := r.Control(r.First())
	if err != nil {
		return in, err
	}
	settings, err := operator.Get(ctx)
	if errors.Is(err, control.ErrUnknownLimit) {
		return in, nil
	}
	if err != nil {
		return in, err
	}
	there, err := operator.Presence(ctx)
	if err != nil {
		return in, err
	}
	nodes, err := nodesOf(ctx, r.Reader, there, settings)
	if err != nil {
		return in, err
	}
	in.Of = len(nodes)
	for _, n := range nodes {
		switch {
		case n.Figures != nil && !n.Stale && n.Figures.Rules >= revision:
			in.Nodes++
		case n.Missing:
			in.Lacking = append(in.Lacking, fmt.Sprintf("%s (not seen for %.1f s)", n.Name, n.SeenS))
		default:
			in.Lacking = append(in.Lacking, n.Name)
		}
	}
	return in, nil
}

// AwaitRules waits until all nodes know the rules of a revision, or ctx ends: then it returns which of them do. It is an error if
// no reading succeeded by then. Where no node works, it does not wait.
func (r Reader) AwaitRules(ctx context.Context, revision int64) (in limits.InForce, err error) {
	const every = 25 * time.Millisecond
	in.Lacking = []string{}
	start := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for known := false; ; known = true {
		now, err := r.RulesInForce(ctx, revision)
		switch {
		case err != nil && known && ended(ctx):
			return in, nil
		case err != nil:
			return in, err
		}
		if in = now; in.Of == 0 {
			return in, nil
		}
		if in.Nodes == in.Of {
			seconds := time.Since(start).Seconds()
			in.AfterS = &seconds
			return in, nil
		}
		select {
		case <-ctx.Done():
			return in, nil
		case <-tick.C:
		}
	}
}

// ended tells whether a context is over. Its connections may find out before it does: they have its deadline.
func ended(ctx context.Context) bool {
	end, bounded := ctx.Deadline()
	return ctx.Err() != nil || bounded && !time.Now().Before(end)
}
