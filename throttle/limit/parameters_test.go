package limit_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/throttle/limit"
)

// Each field of the terms and guardrails is a parameter, or no operator could see or
// change it. Auto is a value of the guard.
func TestEveryFieldIsAParameter(t *testing.T) {
	t.Parallel()
	var names []string
	for _, p := range limit.Parameters {
		names = append(names, p.Name)
	}
	for _, of := range []reflect.Type{reflect.TypeFor[limit.Contract](), reflect.TypeFor[limit.Terms](), reflect.TypeFor[limit.Guardrails]()} {
		for field := range of.Fields() {
			if name := field.Tag.Get("json"); name != "" && name != "auto" && !slices.Contains(names, name) {
				t.Errorf("%s.%s is no parameter: add a row to Parameters", of, field.Name)
			}
		}
	}
}

// What a change undoes comes back: the values of any settings, read again, are these settings.
func TestValuesRestoreAnySettings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		was, now := drawSettings(rt), drawSettings(rt)
		err := limit.Restore(was, limit.Differences(now, was)).Apply(&now)
		if left := limit.Differences(now, was); err != nil || len(left) > 0 {
			rt.Fatalf("got %+v, %v, want %+v; %d settings differ", now, err, was, len(left))
		}
		if !was.Auto && now.Lateness != was.Lateness {
			rt.Fatalf("got a lateness of %s, want %s", now.Lateness, was.Lateness)
		}
	})
}

func drawSettings(rt *rapid.T) limit.Settings {
	length := rapid.Custom(func(rt *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(1, 1_000_000).Draw(rt, "us")) * time.Microsecond
	})
	count := rapid.Int64Range(1, limit.MaxCap)
	s := limit.Settings{
		Terms: limit.Terms{
			Contract: limit.Contract{
				Cap: count.Draw(rt, "cap"), Window: 10 * length.Draw(rt, "window"), Burst: count.Draw(rt, "burst"), Guard: length.Draw(rt, "guard"),
				Lateness: length.Draw(rt, "lateness"), Spread: length.Draw(rt, "spread"), Horizon: length.Draw(rt, "horizon"),
			},
			Algorithm: rapid.SampledFrom(limit.Algorithms()).Draw(rt, "algorithm").Name, Paused: rapid.Bool().Draw(rt, "paused"),
		},
		Guardrails: limit.Guardrails{MaxCap: count.Draw(rt, "max_cap"), MaxStep: rapid.Float64Range(1, 1e9).Draw(rt, "max_step")},
	}
	if rapid.Bool().Draw(rt, "auto") {
		s.Contract = s.Contract.WithLateness(s.Lateness)
	}
	return s
}
