package parameters_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// Each field of the terms and guardrails is a parameter, or no operator could see or
// change it. Auto is a value of the guard.
func TestEveryFieldIsAParameter(t *testing.T) {
	t.Parallel()
	var names []string
	for _, p := range parameters.All {
		names = append(names, p.Name)
	}
	for _, of := range []reflect.Type{reflect.TypeFor[limit.Contract](), reflect.TypeFor[limit.Terms](), reflect.TypeFor[limit.Guardrails]()} {
		for field := range of.Fields() {
			switch name := strings.TrimSuffix(field.Tag.Get("json"), ",omitempty"); {
			case field.Anonymous || name == "auto", name == "gate": // what kind of limit it is, and no setting
			case name == "":
				t.Errorf("%s.%s has no json tag: Redis would hold it under another name than the file", of, field.Name)
			case !slices.Contains(names, name):
				t.Errorf("%s.%s is no parameter: add a row to All in parameters.go", of, field.Name)
			}
		}
	}
}

// What a change undoes comes back: the values of any settings, read again, are these settings.
func TestValuesRestoreAnySettings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		was, now := drawSettings(rt), drawSettings(rt)
		err := parameters.Restore(was, parameters.Differences(now, was)).Apply(&now)
		if left := parameters.Differences(now, was); err != nil || len(left) > 0 {
			rt.Fatalf("got %+v, %v, want %+v; %d settings differ", now, err, was, len(left))
		}
		if !was.Auto && now.Lateness != was.Lateness {
			rt.Fatalf("got a lateness of %s, want %s", now.Lateness, was.Lateness)
		}
	})
}

// A gate keeps its own values of the parameters that gates have, whatever the first limit says.
func TestAGateKeepsItsOwnValues(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		first, gate := drawSettings(rt), drawSettings(rt)
		gate.Gate = true
		beside := limit.Settings{Terms: gate.Beside(first.Terms)}
		for _, p := range parameters.All {
			if p.Kind == parameters.Guardrail || !p.Of(gate.Terms) {
				continue
			}
			if got, want := p.Text(beside), p.Text(gate); got != want {
				rt.Errorf("%s: got %q for a gate, want its own %q: keep it in Terms.Beside, or it is a parameter of First", p.Name, got, want)
			}
		}
	})
}

// drawSettings draws a value for each parameter, by its type.
func drawSettings(rt *rapid.T) (s limit.Settings) {
	length := rapid.Custom(func(rt *rapid.T) string {
		return (time.Duration(rapid.Int64Range(1, 1_000_000).Draw(rt, "us")) * time.Microsecond).String()
	})
	values := parameters.Values{"guard": rapid.OneOf(length, rapid.Just(parameters.Auto)).Draw(rt, "guard")}
	for _, p := range parameters.All {
		if p.Kind == parameters.Fixed || p.Name == "guard" {
			continue
		}
		switch p.Value(s).(type) {
		case int64:
			values[p.Name] = fmt.Sprint(rapid.Int64().Draw(rt, p.Name))
		case float64:
			values[p.Name] = fmt.Sprint(rapid.Float64Range(-1e12, 1e12).Draw(rt, p.Name))
		case bool:
			values[p.Name] = fmt.Sprint(rapid.Bool().Draw(rt, p.Name))
		case time.Duration:
			values[p.Name] = length.Draw(rt, p.Name)
		default:
			values[p.Name] = rapid.String().Draw(rt, p.Name)
		}
	}
	if err := values.Apply(&s); err != nil {
		rt.Fatal(err)
	}
	return s
}
