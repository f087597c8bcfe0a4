package parameters

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/internal/timetext"
	"dispatcher/throttle/limit"
)

// Parameter is a setting of a limit by its name. All that lists the settings goes by
// [All]: a change and its undo, the flags of limit set, limit get, the history.
type Parameter struct {
	Name  string // in the configuration and in Redis; a flag has - for _
	Kind  Kind
	On    Place                     // which limits have it
	About string                    // one phrase for limit set --help and limit get, with the value's name in `quotes`
	field func(*limit.Settings) any // a pointer to the field; to the contract for the guard
}

// Kind is how operators change a parameter.
type Kind int

// The kinds.
const (
	Term      Kind = iota // of [limit.Terms]: an override ends it by itself, and limit undo --to returns to it
	Pause                 // as a term, with commands of its own
	Guardrail             // of [limit.Guardrails]: a change is for good
	Fixed                 // of [limit.Terms]: Redis holds it, and it never changes while the fleet runs
	ByValue               // of [limit.Terms]: it is changed for one value of the key, with limit set --key
)

// Place says which limits have a parameter.
type Place int

// The places.
const (
	First  Place = iota // the first one alone
	Every               // gates too
	Paced               // gates too, but no quota
	Quotas              // quotas alone
	Gates               // all gates
)

// All are all settings of a limit that Redis holds.
var All = []Parameter{ //nolint:gochecknoglobals // a constant table
	{"algorithm", Term, First, "`name` of the algorithm; a change stops all calls for one window", func(s *limit.Settings) any { return &s.Algorithm }},
	{"cap", Term, Every, "`calls` the provider allows in any window", func(s *limit.Settings) any { return &s.Cap }},
	{"window", Term, Paced, "the provider's window, a `time` such as 1s or 1m", func(s *limit.Settings) any { return &s.Window }},
	{"burst", Term, First, "`calls` that may go at once after a pause", func(s *limit.Settings) any { return &s.Burst }},
	{"max_cost", Term, Every, "`units` that one job counts, at most", func(s *limit.Settings) any { return &s.MaxCost }},
	{"max_in_flight", Term, First, "`calls` in flight at once, on all nodes together; 0: no bound", func(s *limit.Settings) any { return &s.MaxInFlight }},
	{"guard", Term, First, "how much the delay from slot to arrival may vary, lateness included: a `time`, or auto: the fleet chooses", func(s *limit.Settings) any { return &s.Contract }},
	{"spread", Term, First, "how much the delay on the network varies, a `time`; with --guard auto", func(s *limit.Settings) any { return &s.Spread }},
	{"lateness", Term, First, "how late after its slot a call may start, a `time`", func(s *limit.Settings) any { return &s.Lateness }},
	{"horizon", Term, First, "how far ahead slots are reserved, a `time`", func(s *limit.Settings) any { return &s.Horizon }},
	{"ignore_throttled", Term, First, "true: calls that the provider refuses for their rate slow nothing down but their own jobs", func(s *limit.Settings) any { return &s.IgnoreThrottled }},
	{"weights", Term, First, "`weights` of tenants of fair lanes, such as \"acme=5 beta=0.5\"; all others have the weight 1", func(s *limit.Settings) any { return &s.Weights }},
	{"exceptions", ByValue, Gates, "other caps of single values of the key", func(s *limit.Settings) any { return &s.Exceptions }},
	{"paused", Pause, Every, "true: no call is made", func(s *limit.Settings) any { return &s.Paused }},
	{"max_cap", Guardrail, Every, "largest cap in `calls` that needs no --force; 0: no bound", func(s *limit.Settings) any { return &s.MaxCap }},
	{"max_step", Guardrail, Every, "largest `factor` between the old and the new rate that needs no --force; 0: no bound", func(s *limit.Settings) any { return &s.MaxStep }},
	{"reserve", Fixed, First, "`calls` of the cap in any window that are kept for nodes without Redis", func(s *limit.Settings) any { return &s.Reserve }},
	{"calendar", Fixed, Quotas, "`window` of a quota: a minute, hour, day or month of the calendar", func(s *limit.Settings) any { return &s.Calendar }},
	{"zone", Fixed, Quotas, "time `zone` of the calendar; empty: UTC", func(s *limit.Settings) any { return &s.Zone }},
	{"rolling", Fixed, Quotas, "window of a quota that begins anywhere, a `time`", func(s *limit.Settings) any { return &s.Rolling }},
	{"on_lost", Fixed, Quotas, "what a quota with a key does after Redis lost its counts: `wait` or open", func(s *limit.Settings) any { return &s.OnLost }},
	{"max_nodes", Fixed, First, "`nodes` that may lease a part of the reserve", func(s *limit.Settings) any { return &s.MaxNodes }},
}

// Auto is the text of a guard that the fleet chooses.
const Auto = "auto"

// Of reports whether the limit has the parameter.
func (p Parameter) Of(t limit.Terms) bool {
	switch p.On {
	case First:
		return !t.Gate
	case Paced:
		return !t.IsQuota()
	case Quotas:
		return t.IsQuota()
	case Gates:
		return t.Gate
	case Every:
	}
	return true
}

// Value returns an int64, a float64, a bool, a string, a [time.Duration] or [limit.Exceptions]. The
// guard is its duration, also where it is auto.
func (p Parameter) Value(s limit.Settings) any {
	switch v := p.field(&s).(type) {
	case *int64:
		return *v
	case *float64:
		return *v
	case *bool:
		return *v
	case *string:
		return *v
	case *time.Duration:
		return *v
	case *limit.Exceptions:
		return *v
	case *limit.Contract:
		return v.Guard
	}
	panic("parameters: no case for the type of " + p.Name)
}

// Text is the value as the configuration has it. [Values.Apply] reads it.
func (p Parameter) Text(s limit.Settings) string {
	if p.Name == "guard" && s.Auto {
		return Auto
	}
	return fmt.Sprint(p.Value(s))
}

// Display is the value for people: a guard and a lateness that the fleet chooses are auto, and a guardrail of 0 is none.
func (p Parameter) Display(s limit.Settings) string {
	d, timed := p.Value(s).(time.Duration)
	switch {
	case s.Auto && (p.Name == "guard" || p.Name == "lateness"):
		return Auto
	case timed:
		return timetext.Short(d)
	case p.Kind == Guardrail && p.Text(s) == "0":
		return "none"
	}
	return p.Text(s)
}

// set reads a value. The error says what a text must be.
func (p Parameter) set(s *limit.Settings, text string) (err error) {
	must := ""
	switch v := p.field(s).(type) {
	case *int64:
		*v, err = strconv.ParseInt(text, 10, 64)
		must = "must be a whole number"
	case *float64:
		*v, err = strconv.ParseFloat(text, 64)
		must = "must be a number"
	case *bool:
		*v, err = strconv.ParseBool(text)
		must = "must be true or false"
	case *string:
		*v = text
	case *limit.Exceptions:
		*v = limit.Exceptions(text) // see limit.Terms.Validate
	case *time.Duration:
		*v, err = time.ParseDuration(text)
		must = "must be a duration with a unit, such as 10ms"
	case *limit.Contract:
		if v.Auto = text == Auto; !v.Auto {
			v.Guard, err = time.ParseDuration(text)
		}
		must = "must be auto, or a duration with a unit, such as 10ms"
	}
	if err != nil {
		return fault.New(p.Name, text, must)
	}
	return nil
}

// Differences are the parameters that are not the same in a and b. Where the fleet
// chooses guard and lateness in both, these are the same. Of a gate they are those that a
// gate has.
func Differences(a, b limit.Settings) []Parameter {
	a.Contract, b.Contract = a.Stated(), b.Stated()
	return slices.DeleteFunc(slices.Clone(All), func(p Parameter) bool {
		return !p.Of(a.Terms) || !p.Of(b.Terms) || p.Text(a) == p.Text(b)
	})
}

// Shown is the name in JSON: a duration is in seconds there, and its name ends in _s.
func (p Parameter) Shown() string {
	if _, timed := p.Value(limit.Settings{}).(time.Duration); timed {
		return p.Name + "_s"
	}
	return p.Name
}

// Values are new values of parameters, by name, as texts: {"cap": "300", "window": "1s"}.
type Values map[string]string

// Restore are the values that s has for the parameters. A gate has fewer of them.
func Restore(s limit.Settings, parameters []Parameter) Values {
	v := Values{}
	for _, p := range parameters {
		if p.Kind != Fixed && p.Of(s.Terms) {
			v[p.Name] = p.Text(s)
		}
	}
	return v
}

// Apply puts the values into the settings. Its error has a [fault.Error] for each that
// is none. It does not say whether the settings can be kept: see [limit.Terms.Validate].
func (v Values) Apply(s *limit.Settings) error {
	var faults fault.List
	wasAuto := s.Auto
	for _, name := range slices.Sorted(maps.Keys(v)) {
		i := slices.IndexFunc(All, func(p Parameter) bool { return p.Name == name })
		switch {
		case i < 0:
			faults.Refuse(true, name, v[name], "is no setting of a limit")
		case All[i].Kind == Fixed:
			faults.Refuse(true, name, v[name], "can't change while the fleet runs: stop it, change the file and delete the limit")
		default:
			faults.Under("", All[i].set(s, v[name]))
		}
	}
	if !s.Gate { // a gate's guard is the first limit's
		s.Contract = v.follow(s.Contract, wasAuto)
	}
	return faults.Err()
}

// follow is the contract with a lateness that follows from a new guard. Where the fleet
// chose before, a guard that is stated is the spread and, the rest of it, the lateness.
func (v Values) follow(c limit.Contract, wasAuto bool) limit.Contract {
	if c.Auto {
		if c.Spread == 0 {
			c.Spread = limit.DefaultSpread
		}
		return c.WithLateness(c.Lateness)
	}
	if _, stated := v["lateness"]; wasAuto && !stated {
		c.Lateness = c.Guard - c.Spread
	}
	return c
}

// Validate refuses values of what the fleet chooses in these settings, and of what a gate
// does not have.
func (v Values) Validate(s limit.Settings) error {
	var faults fault.List
	for _, p := range All {
		value, stated := v[p.Name]
		faults.Refuse(stated && p.On == First && s.Gate, p.Name, fault.Phrase(value), "is the first limit's: change it there")
		faults.Refuse(stated && p.On == Gates && !s.Gate, p.Name, fault.Phrase(value), "is for a limit with a key")
		faults.Refuse(stated && p.On == Quotas && !s.IsQuota(), p.Name, fault.Phrase(value), "is for a quota, and can't change while the fleet runs")
		faults.Refuse(stated && p.On == Paced && s.IsQuota(), p.Name, fault.Phrase(value), "is that of the quota's calendar or rolling, which can't change while the fleet runs")
	}
	if s.Gate {
		return faults.Err()
	}
	_, guard := v["guard"]
	lateness, given := v["lateness"]
	faults.Refuse(s.Auto && given && !guard, "lateness", lateness, "is chosen by the fleet while the guard is auto; state the guard as well")
	return faults.Err()
}
