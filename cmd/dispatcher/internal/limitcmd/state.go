package limitcmd

import (
	"context"
	"strings"
	"time"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/configs"
	"dispatcher/throttle/limit"
)

// termsOf are the terms of a limit for JSON.
func termsOf(t limit.Terms) map[string]any {
	terms := valuesOf(limit.Settings{Terms: t}, false)
	if t.Gate {
		terms["gate"] = true
	} else {
		terms["guard_auto"] = t.Auto // the fleet chooses guard and lateness
	}
	return terms
}

// guardrailsOf are the guardrails of a limit for JSON; 0: none.
func guardrailsOf(s limit.Settings) map[string]any { return valuesOf(s, true) }

// valuesOf are the guardrails, or all other parameters: durations in seconds, under names
// that end in _s.
func valuesOf(s limit.Settings, guardrails bool) map[string]any {
	values := map[string]any{}
	for _, p := range limit.Parameters {
		if (p.Kind == limit.Guardrail) != guardrails || !p.Of(s.Terms) {
			continue
		}
		switch v := p.Value(s).(type) {
		case time.Duration:
			values[p.Name+"_s"] = v.Seconds()
		case limit.Exceptions:
			values[p.Name] = exceptionsOf(v)
		default:
			values[p.Name] = v
		}
	}
	return values
}

// limitState is a limit as it is in force, and how the file differs from it.
type limitState struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	counts
	Share     float64        `json:"share"`
	Revision  int64          `json:"revision"`
	Changed   string         `json:"changed,omitempty"`
	By        string         `json:"by,omitempty"`
	Why       string         `json:"why,omitempty"`
	RevertAt  string         `json:"revert_at,omitempty"` // when an override ends
	RevertInS *float64       `json:"revert_in_s,omitempty"`
	RevertTo  map[string]any `json:"revert_to,omitempty"` // in force after that
	InForce   inForce        `json:"in_force"`
	InFile    bool           `json:"in_file"`
	Differs   []difference   `json:"differs"`
	Binds     *float64       `json:"binds,omitempty"` // share of the last half minute in which jobs waited for it, on the node where it is most; absent: no node works
	Chosen    *chosen        `json:"lateness_chosen,omitempty"`
	Trips     *roundTrips    `json:"round_trips,omitempty"` // where the guard is auto
	Slowdown  *slowdownState `json:"slowdown,omitempty"`    // absent: the cap is in force
	Quota     *quotaUse      `json:"quota,omitempty"`       // of a quota without a key, or of one value
	Value     *valueState    `json:"value,omitempty"`       // of the key, that the command names

	first       string // name of the first limit
	unconfirmed bool   // changed just now, without --wait
}

// quotaUse is how much of a quota is used.
type quotaUse struct {
	Used int64  `json:"used"`
	Ends string `json:"ends,omitempty"` // when the window of the calendar is over; absent: the quota is rolling
}

// quotaUse is nil where there is no quota, or it has a key.
func (c limitConn) quotaUse(ctx context.Context, now limit.Settings, clock time.Time) (*quotaUse, error) {
	if !now.IsQuota() || countsOf(c.cfg, c.name).Key != "" {
		return nil, nil //nolint:nilnil // there is none
	}
	used, err := c.control.Used(ctx, limit.HashOf(""), now.Terms, c.cfg.Limits[0].Name)
	if err != nil {
		return nil, err
	}
	return usedOf(now, used.State, clock), nil
}

// usedOf is how much of a quota is used as its state says.
func usedOf(now limit.Settings, state string, clock time.Time) *quotaUse {
	use := quotaUse{Used: now.Used(state, clock)}
	if bounds := now.Bounds(clock); bounds != nil {
		use.Ends = cli.Stamp(bounds[2])
	}
	return &use
}

// chosen is when and why the fleet chose the lateness that is in force.
type chosen struct {
	At  string `json:"at"`
	Why string `json:"why"`
}

// chosenLateness finds the fleet's choice in the history, if no later change replaced it.
func (c limitConn) chosenLateness(ctx context.Context) (*chosen, error) {
	const far = 1000 // all there is
	entries, err := c.control.History(ctx, far)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Chosen() {
			return &chosen{At: cli.Exact(e.To.Changed), Why: strings.TrimPrefix(e.To.Why, "guard auto: ")}, nil
		}
		if !e.From.Auto || e.From.Lateness != e.To.Lateness {
			break // an operator set another one since
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

// counts says which jobs a gate counts, as the file states it.
type counts struct {
	Key  string `json:"key,omitempty"`  // absent: all jobs count together
	When string `json:"when,omitempty"` // absent: every job counts
	Cost string `json:"cost,omitempty"` // absent: a job counts as on the first limit
}

func countsOf(cfg configs.Config, name string) counts {
	for _, g := range cfg.Gates() {
		if g.Name == name {
			return counts{Key: g.Key, When: g.When, Cost: g.Cost}
		}
	}
	return counts{}
}

// difference is a setting that differs between the file and Redis.
type difference struct {
	Field string `json:"field"`
	File  string `json:"file"`
	Redis string `json:"redis"`
}

func newLimitState(cfg configs.Config, name string, now limit.Settings) limitState {
	state := limitState{
		Name: name, Namespace: cfg.Redis.Namespace, counts: countsOf(cfg, name), first: cfg.Limits[0].Name,
		Share: now.UsableShare(), Revision: now.Revision, Changed: cli.Stamp(now.Changed), By: now.By, Why: now.Why,
		Differs: []difference{},
	}
	if stated, ok := cfg.Stated(name); ok {
		state.InFile = true
		state.Differs = differences(stated.Settings(), now)
	}
	return state
}

// differences are the terms that differ. A guard and a lateness that the fleet chooses
// are both auto.
func differences(file, redis limit.Settings) []difference {
	found := []difference{}
	if file.Gate != redis.Gate {
		found = append(found, difference{"place", placeOf(file.Terms), placeOf(redis.Terms)})
	}
	for _, p := range limit.Differences(file, redis) {
		if p.Kind == limit.Term || p.Kind == limit.FileOnly {
			found = append(found, difference{p.Name, valueText(p, file), valueText(p, redis)})
		}
	}
	return found
}

// placeOf says which place among the limits the terms are for.
func placeOf(t limit.Terms) string {
	if t.Gate {
		return "beside the first limit"
	}
	return "the first limit"
}

// valueText writes a setting as it is written in the configuration.
func valueText(p limit.Parameter, s limit.Settings) string {
	d, timed := p.Value(s).(time.Duration)
	switch {
	case s.Auto && (p.Name == "guard" || p.Name == "lateness"):
		return limit.Auto
	case timed:
		return cli.Short(d)
	case p.Kind == limit.Guardrail && p.Text(s) == "0":
		return "none"
	}
	return p.Text(s)
}
