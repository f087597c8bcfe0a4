package limit_test

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// Whatever jobs come, no window and guard hold more units of a gate than its cap.
func TestNoWindowOfAGateHoldsMoreThanItsCap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := limit.Contract{Cap: rapid.Int64Range(1, 60).Draw(t, "cap"), Window: time.Second, Guard: 10 * time.Millisecond}
		c.MaxCost = rapid.Int64Range(1, c.Cap).Draw(t, "max_cost")
		costs := rapid.SliceOfN(rapid.Int64Range(1, c.MaxCost), 1, 200).Draw(t, "costs")
		var starts []time.Duration // one job as soon as the gate allows it
		var free time.Duration
		for _, cost := range costs {
			starts = append(starts, free)
			free += time.Duration(cost) * c.GateSpacing()
		}
		for i := range starts {
			units := int64(0)
			for k := i; k < len(starts) && starts[k]-starts[i] < c.Window+c.Guard; k++ {
				units += costs[k]
			}
			if units > c.Cap {
				t.Fatalf("got %d units in a window from %s, want at most %d", units, starts[i], c.Cap)
			}
		}
	})
}

func TestSpacingAndShareOfAGate(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		cap, cost int64
		window    time.Duration
		spacing   time.Duration
		share     string
	}{
		{50, 1, time.Second, 20200 * time.Microsecond, "0.990"},
		{300, 1, time.Second, 3367 * time.Microsecond, "0.990"},
		{10, 6, time.Second, 202 * time.Millisecond, "0.495"},
		{1, 1, time.Second, 1010 * time.Millisecond, "0.990"},
		{limit.MaxCap, 1, time.Second, time.Microsecond, "0.001"},
	} {
		c := limit.Contract{Cap: row.cap, MaxCost: row.cost, Window: row.window, Guard: 10 * time.Millisecond}
		if got := c.GateSpacing(); got != row.spacing {
			t.Errorf("%d in %s, cost %d: got %s, want %s", row.cap, row.window, row.cost, got, row.spacing)
		}
		if got := strconv.FormatFloat(c.GateShare(), 'f', 3, 64); got != row.share {
			t.Errorf("%d in %s, cost %d: got share %s, want %s", row.cap, row.window, row.cost, got, row.share)
		}
	}
}

// A gate's settings say that it is one, in Redis and after an override.
func TestSettingsOfAGateComeBack(t *testing.T) {
	t.Parallel()
	set := gateTerms("cap", "5").settings()
	set.RevertAt, set.RevertTo = time.UnixMicro(1_700_000_000_000_000), gateTerms("cap", "3").Terms
	back, err := limit.Unpack(set.Pack())
	if err != nil || back.Terms != set.Terms || back.RevertTo != set.RevertTo || !back.Gate || !back.Reverted().Gate {
		t.Errorf("got %+v, %v, want a gate now and after the override: %+v", back, err, set)
	}
	if text := (limit.Spec{Terms: limit.Terms{Contract: set.Contract}}).Settings().Pack(); strings.Contains(text, "gate") {
		t.Errorf("got %s, want no word of a gate in the settings of a first limit", text)
	}
}

type gateSpec limit.Spec

func (s gateSpec) settings() limit.Settings { return limit.Spec(s).Settings() }

// gateTerms is a gate with other values of some fields, whatever parameters a gate has.
func gateTerms(values ...string) gateSpec {
	set := limit.Settings{Terms: limit.Terms{Algorithm: limit.TokenBucket, Contract: limit.Contract{
		Cap: 2, Window: time.Second, Burst: 1, MaxCost: 1, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: 200 * time.Millisecond,
	}}}
	for i := 0; i < len(values); i += 2 {
		if values[i] == "reserve" {
			set.Reserve, set.MaxNodes = 1, 1
		} else if err := (parameters.Values{values[i]: values[i+1]}).Apply(&set); err != nil {
			panic(err)
		}
	}
	set.Gate = true
	return gateSpec{Terms: set.Terms, Guardrails: set.Guardrails}
}

func TestRulesOfAGate(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, value, want string }{
		{"cap", "1", ""},
		{"cap", "0", "cap: 0: must be from 1 to"},
		{"max_cost", "2", ""}, // a gate of which little is left, since no other algorithm leaves more
		{"max_cost", "3", "max_cost: 3: must be at most 2"},
		{"window", "1m", ""},
		{"window", "61s", "window: 1m1s: must be from 1ms to 1m beside the first limit"},
		{"window", "50ms", "window: 50ms: must be at least 10 times the guard of 10ms"},
		{"max_cap", "1", "max_cap: 1: must be at least the cap of 2"},
		{"burst", "2", "burst: 2: must be 1: only the first limit may have a burst"},
		{"algorithm", "gcra", "algorithm: \"gcra\": must be token_bucket"},
		{"max_in_flight", "3", "max_in_flight: 3: must be 0: only the first limit may have one"},
		{"ignore_throttled", "true", "ignore_throttled: true: is for the first limit"},
		{"reserve", "", "reserve: 1: must be 0: only the first limit may have one"},
	} {
		err := limit.Spec(gateTerms(row.name, row.value)).Validate()
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.HasPrefix(err.Error(), row.want)) {
			t.Errorf("%s %s: got %v, want %q", row.name, row.value, err, row.want)
		}
	}
	spec := limit.Spec(gateTerms())
	if spec.Scope = limit.ScopeNode; spec.Validate() == nil {
		t.Error("got no error for a gate that each node keeps for itself")
	}
}

// A gate has few of the parameters. The others can't be stated, restored or differ.
func TestAGateHasFewParameters(t *testing.T) {
	t.Parallel()
	gate := gateTerms().settings()
	other := gate
	for _, p := range parameters.All {
		value := map[string]string{"algorithm": "gcra", "paused": "true", "ignore_throttled": "true"}[p.Name]
		if _, timed := p.Value(gate).(time.Duration); timed {
			value = "20ms"
		}
		value = cmp.Or(value, "7")
		err := parameters.Values{p.Name: value}.Validate(gate)
		want := p.Name + ": " + value + ": is the first limit's: change it there"
		if p.On == parameters.Quotas {
			want = p.Name + ": " + value + ": is for a quota, and can't change while the fleet runs"
		}
		if p.Of(gate.Terms) != (err == nil) || err != nil && err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if p.Kind == parameters.Fixed {
			continue
		}
		if err := (parameters.Values{p.Name: value}).Apply(&other); err != nil {
			t.Error(err)
		}
	}
	restored := parameters.Restore(gate, parameters.All)
	if want := []string{"cap", "exceptions", "max_cap", "max_cost", "max_step", "paused", "window"}; !slices.Equal(slices.Sorted(maps.Keys(restored)), want) {
		t.Errorf("got %v restored, want %v", restored, want)
	}
	if differing := parameters.Differences(gate, other); len(differing) != len(restored) {
		t.Errorf("got %d differences, want %d", len(differing), len(restored))
	}
}

// The share that bounds a change is the gate's own.
func TestWasteOfAGate(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, value, want string }{
		{"cap", "300", ""},
		{"max_cost", "2", "max_cost: 2: leaves 0.495 of the cap"},
		{"cap", "1000000000", "cap: 1000000000: uses 0.001 of itself"},
	} {
		terms := gateTerms(row.name, row.value).Terms
		err := terms.Waste()
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.HasPrefix(err.Error(), row.want)) {
			t.Errorf("%s %s: got %v, want %q", row.name, row.value, err, row.want)
		}
		if terms.UsableShare() != terms.GateShare() {
			t.Errorf("got a share of %g, want the gate's of %g", terms.UsableShare(), terms.GateShare())
		}
	}
}
