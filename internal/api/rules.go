package api

import (
	"context"
	"net/http"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/internal/limits"
	"dispatcher/internal/overview"
	"dispatcher/internal/rules"
	"dispatcher/internal/why"
)

func (a *api) rules(r *http.Request) (any, error) { return a.fleet.Rules(r.Context()) }

// ruleJSON is a rule that was made or ended.
type ruleJSON struct {
	rules.Rule

	InForce limits.InForce `json:"in_force"` // on which nodes it acts, or has ended
}

// addRule cancels or holds jobs.
func (a *api) addRule(r *http.Request) (any, error) {
	var kind, when, until string
	ch, err := signed(r, map[string]any{"kind": &kind, "when": &when, "until": &until})
	if err != nil {
		return nil, err
	}
	rule := rules.Rule{Kind: rules.Kind(kind), When: when, By: ch.By, Why: ch.Why}
	switch {
	case (until == "") == (ch.For == 0):
		return nil, fault.New("until", until, "state when the rule ends: until, such as 2026-11-30T18:00:00Z, or for, such as 24h")
	case until != "":
		if rule.Until, err = time.Parse(time.RFC3339, until); err != nil {
			return nil, fault.New("until", until, "must be a time such as 2026-11-30T18:00:00Z")
		}
	}
	made, revision, err := a.fleet.RuleStore().Add(r.Context(), rule, ch.For)
	if err != nil {
		return nil, err
	}
	return a.ruleIn(r, made, revision)
}

// endRule ends a rule before its time.
func (a *api) endRule(r *http.Request) (any, error) {
	ch, err := signed(r, nil)
	if err != nil {
		return nil, err
	}
	ended, revision, err := a.fleet.RuleStore().End(r.Context(), r.PathValue("id"), ch.By, ch.Why)
	if err != nil {
		return nil, err
	}
	return a.ruleIn(r, ended, revision)
}

// ruleIn waits for the nodes where the request asks for that.
func (a *api) ruleIn(r *http.Request, of rules.Rule, revision int64) (any, error) {
	within := time.Duration(0)     // one look
	if wait, _ := waits(r); wait { // [body.change] has refused what is neither true nor false
		within = timeout * 3 / 5
	}
	in, err := awaitRules(r.Context(), a.fleet, revision, within)
	return ruleJSON{of, in}, err
}

func awaitRules(ctx context.Context, fleet overview.Reader, revision int64, within time.Duration) (limits.InForce, error) {
	if within == 0 {
		return fleet.RulesInForce(ctx, revision)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return fleet.AwaitRules(ctx, revision)
}

func (a *api) ruleHistory(r *http.Request) (any, error) {
	n, err := within(r, "n", fewLines, mostLines)
	if err != nil {
		return nil, err
	}
	return a.fleet.RuleStore().Events(r.Context(), n)
}

// previewRule counts the fetched jobs that an expression is true for.
func (a *api) previewRule(r *http.Request) (any, error) {
	when := r.URL.Query().Get("when")
	if err := rules.CheckWhen(when); err != nil {
		return nil, err
	}
	report, err := why.AskAll(r.Context(), a.Redis, a.Config.Redis.Namespace, a.First(), why.Question{When: when})
	if err != nil {
		return nil, err
	}
	return struct {
		Nodes  int      `json:"nodes"`
		Silent []string `json:"silent"`
		why.Matching
	}{report.Nodes, report.Silent, report.Total()}, nil
}
