package configs

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"time"

	"dispatcher/internal/expression"
	"dispatcher/internal/fault"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// Limit seeds one limit: what the provider allows, and how that is kept. The first one has the
// timeline and counts every job. The others are gates: see [Gate].
type Limit struct {
	Name string `yaml:"name"`
	Key  string `yaml:"key"`  // an expression; empty: all jobs count together
	When string `yaml:"when"` // an expression; empty: every job counts
	Cost string `yaml:"cost"` // an expression; empty: [Config.Cost]
	// ThrottledAs is what stands at [sender.Config.ThrottledLimit] in an answer about this limit.
	// Empty: its name.
	ThrottledAs string `yaml:"throttled_as"`
	limit.Spec  `yaml:",inline"`
	Guard       string `yaml:"guard"` // auto, or a duration
}

// ofGate tells the keys that a gate may state. All others are the first limit's, also those
// that are added to [Limit] later.
func ofGate(key string) bool {
	return slices.Contains([]string{"name", "key", "when", "cost", "throttled_as"}, key) ||
		slices.ContainsFunc(parameters.All, func(p parameters.Parameter) bool { return p.On != parameters.First && p.Name == key })
}

// Stated is the first limit in the limiter's own terms. [Config.Gates] has the others.
func (l Limit) Stated() limit.Spec {
	guard, err := l.guard()
	l.Spec.Guard, l.Auto = guard, l.Guard == parameters.Auto || err != nil
	return l.Spec
}

// guard is the one to begin with. The error says that the text is none.
func (l Limit) guard() (time.Duration, error) {
	auto := l.Lateness + l.Spread
	if l.Guard == parameters.Auto {
		return auto, nil
	}
	d, err := time.ParseDuration(l.Guard)
	if err != nil {
		return auto, err
	}
	return d, nil
}

// Gate is a limit after the first. A job counts on it if When holds; jobs with different
// values of Key are counted apart. Its guard, lateness, spread and horizon are the first
// limit's.
type Gate struct {
	Name string
	Key  string // an expression; empty: all jobs count together
	When string // an expression; empty: every job counts
	Cost string // an expression; empty: a job counts as on the first limit
	Spec limit.Spec

	// ThrottledAs is what a throttled answer says that is about this limit; empty: none is, for it is a quota.
	ThrottledAs string
}

// Gates are the limits after the first, in the order of the file.
func (c Config) Gates() []Gate {
	var gates []Gate
	for i := 1; i < len(c.Limits); i++ {
		gates = append(gates, c.Limits[i].gateBeside(c.Limits[0].Stated()))
	}
	return gates
}

// Stated is the limit of a name in the limiter's own terms; false: the file has none.
func (c Config) Stated(name string) (limit.Spec, bool) {
	i := slices.IndexFunc(c.Limits, func(l Limit) bool { return l.Name == name })
	switch {
	case i < 0:
		return limit.Spec{}, false
	case i == 0:
		return c.Limits[0].Stated(), true
	}
	return c.Gates()[i-1].Spec, true
}

func (l Limit) gateBeside(first limit.Spec) Gate {
	g := Gate{Name: l.Name, Key: l.Key, When: l.When, Cost: l.Cost, Spec: limit.Spec{Terms: l.Beside(first.Terms), Guardrails: l.Guardrails}}
	if !l.IsQuota() {
		g.ThrottledAs = cmp.Or(l.ThrottledAs, l.Name)
	}
	return g
}

// checkLimits checks each limit, and compares them with each other.
func (c Config) checkLimits() error {
	var l fault.List
	l.Refuse(len(c.Limits) == 0, "limits", fault.Entries(0), "state the limit that the provider allows")
	l.Refuse(len(c.Limits) > 1+limit.MaxGates, "limits", fault.Entries(len(c.Limits)), "at most %d are supported", 1+limit.MaxGates)
	named, throttled := map[string]int{}, map[string]int{}
	for i, one := range c.Limits {
		path := "limits." + strconv.Itoa(i)
		if i == 0 {
			l.Under(path, one.validate(len(c.Limits) > 1))
		} else {
			l.Under(path, one.validateGate(c.Limits[0].Stated()))
		}
		if other, taken := named[one.Name]; taken {
			l.Refuse(true, path+".name", one.Name, "is the name of limits.%d; give each limit a name of its own", other)
		} else {
			named[one.Name] = i
		}
	}
	for i, g := range c.Gates() {
		path := "limits." + strconv.Itoa(i+1) + ".throttled_as"
		l.Refuse(c.Limits[i+1].ThrottledAs != "" && c.Sender.HTTP.ThrottledLimit == "", path, g.ThrottledAs, "say in sender.http.throttled_limit where an answer says so")
		other, taken := throttled[g.ThrottledAs]
		stated := c.Limits[i+1].ThrottledAs != "" || taken && c.Limits[other].ThrottledAs != "" // else the names are the same
		l.Refuse(taken && stated && g.ThrottledAs != "", path, g.ThrottledAs, "is what limits.%d has; an answer must be about one limit", other)
		throttled[g.ThrottledAs] = i + 1
	}
	compiles(&l, "cost", c.Cost, expression.CompileCost)
	return l.Err()
}

// compiles refuses an expression that does not compile. An empty one is none.
func compiles[E any](l *fault.List, field, source string, compile func(string) (E, error)) {
	if source == "" {
		return
	}
	_, err := compile(source)
	if bad, ok := errors.AsType[*expression.Error](err); ok {
		l.Refuse(true, field, source, "%s", bad.Reason)
	}
}

// validate checks the first limit. Beside others it must keep its timeline in Redis, and let
// a job wait.
func (l Limit) validate(others bool) error {
	var faults fault.List
	faults.Under("", limit.CheckName("name", l.Name))
	const every = "must be empty: the first limit counts every job together; move it to a limit after the first"
	faults.Refuse(l.Key != "", "key", l.Key, every)
	faults.Refuse(l.When != "", "when", l.When, every)
	faults.Refuse(l.Cost != "", "cost", l.Cost, "must be empty: state the setting cost, which holds for all limits that state none")
	const paces = "must be left out: the first limit has a pace; state a quota as a limit after it"
	faults.Refuse(l.Calendar != "", "calendar", l.Calendar, paces)
	faults.Refuse(l.Zone != "", "zone", l.Zone, paces)
	faults.Refuse(l.Rolling != 0, "rolling", l.Rolling, paces)
	faults.Refuse(l.OnLost != "", "on_lost", l.OnLost, paces)
	faults.Refuse(l.ThrottledAs != "", "throttled_as", l.ThrottledAs, "must be empty: every throttled answer that is about no other limit is about the first one")
	_, noGuard := l.guard()
	faults.Refuse(noGuard != nil, "guard", l.Guard, "must be auto, or a duration with a unit, such as 10ms")
	faults.Under("", l.Stated().Validate())
	if others {
		faults.Refuse(l.Scope == limit.ScopeNode, "scope", string(l.Scope), "must be cluster with more than one limit")
		faults.Refuse(l.Degraded == limit.DegradedReserve, "degraded", string(l.Degraded), "must be wait with more than one limit")
		faults.Refuse(l.Refuses(), "when_full", string(l.WhenFull), "must be wait with more than one limit")
	}
	return faults.Err()
}

// validateGate checks a limit after the first.
func (l Limit) validateGate(first limit.Spec) error {
	var faults fault.List
	faults.Under("", limit.CheckName("name", l.Name))
	compiles(&faults, "key", l.Key, expression.CompileKey)
	compiles(&faults, "when", l.When, expression.CompileCondition)
	compiles(&faults, "cost", l.Cost, expression.CompileCost)
	stated := reflect.ValueOf(l)
	for _, f := range fieldsOf(stated.Type()) {
		if value := stated.FieldByIndex(f.index); !ofGate(f.name) && !value.IsZero() {
			faults.Refuse(true, f.name, shownAs(value), "is the first limit's alone: leave it out here")
		}
	}
	const longest = 256
	faults.Refuse(len(l.ThrottledAs) > longest, "throttled_as", l.ThrottledAs, "must be at most %d bytes", longest)
	if l.IsQuota() {
		faults.Refuse(l.ThrottledAs != "", "throttled_as", l.ThrottledAs, "must be empty for a quota: a throttled answer about it is taken as one about the first limit")
		faults.Refuse(l.Window != 0, "window", l.Window, "must be left out of a quota: its window is that of calendar or rolling")
		faults.Refuse(l.Key != "" && l.OnLost == "", "on_lost", l.OnLost, "must be wait or open for a quota with a key: nobody but Redis knows how much each value has used")
		faults.Refuse(l.Key == "" && l.OnLost != "", "on_lost", l.OnLost, "is for a quota with a key: without one, the nodes remember how much is used")
	}
	for _, e := range fault.All(l.gateBeside(first).Spec.Validate()) {
		// A fault of a setting of the first limit is reported there, and the window of a quota is no setting.
		here := ofGate(e.Field) && (e.Field != "window" || !l.IsQuota())
		faults.Refuse(here, e.Field, e.Value, "%s", e.Remedy)
	}
	return faults.Err()
}

// shownAs is the value of a setting as a fault shows it: a text of any type is a string.
func shownAs(value reflect.Value) any {
	if value.Kind() == reflect.String {
		return value.String()
	}
	return value.Interface()
}
