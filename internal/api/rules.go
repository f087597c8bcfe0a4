package api

import (
	"context"
	"fmt"
	"net/http"

	"dispatcher/internal/fault"
	"dispatcher/internal/overview"
	"dispatcher/internal/rules"
	"dispatcher/internal/why"
)

func (a *api) rules(r *http.Request) (any, error) { return a.fleet.Rules(r.Context()) }

// addRule cancels or holds jobs.
func (a *api) addRule(r *http.Request) (any, error) {
	var kind, when, until string
	ch, err := signed(r, map[string]any{"kind": &kind, "when": &when, "until": &until}, anEnd)
	if err != nil {
		return nil, err
	}
	rule := rules.Rule{Kind: rules.Kind(kind), When: when, By: ch.By, Why: ch.Why}
	switch {
	case (until == "") == (ch.For == 0):
		return nil, fault.New("until", until, "state when the rule ends: until, such as 2026-11-30T18:00:00Z, or for, such as 24h")
	case until != "":
		if rule.Until, err = rules.ParseUntil(until); err != nil {
			return nil, err
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
	ch, err := signed(r, nil, nothingMore)
	if err != nil {
		return nil, err
	}
	ended, revision, err := a.fleet.RuleStore().End(r.Context(), r.PathValue("id"), ch.By, ch.Why)
	if err != nil {
		return nil, err
	}
	return a.ruleIn(r, ended, revision)
}

// ruleIn waits for the nodes where the request asks for that. The rule is changed by then.
func (a *api) ruleIn(r *http.Request, of rules.Rule, revision int64) (any, error) {
	ctx, read := r.Context(), a.fleet.RulesInForce
	if wait, _ := waits(r); wait { // [body.change] has refused what is neither true nor false
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout*3/5)
		defer cancel()
		read = a.fleet.AwaitRules
	}
	in, err := read(ctx, revision)
	if err != nil {
		return nil, fmt.Errorf("the change of rule %s is made, but which nodes know it could not be read: %w", of.ID, err)
	}
	return overview.ChangedRule{Rule: of, InForce: in}, nil
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
	return why.CountAll(r.Context(), a.Redis, a.Config.Redis.Namespace, a.First(), when)
}
