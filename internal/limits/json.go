package limits

import (
	"encoding/json"
	"time"

	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// joined is one JSON object with the fields of several. Each name is to be in one of them only.
type joined []any

// MarshalJSON writes the fields of all parts.
func (j joined) MarshalJSON() ([]byte, error) {
	all := map[string]json.RawMessage{}
	for _, part := range j {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &all); err != nil {
			return nil, err
		}
	}
	return json.Marshal(all)
}

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

// valuesOf are the guardrails, or all other parameters: durations in seconds.
func valuesOf(s limit.Settings, guardrails bool) map[string]any {
	values := map[string]any{}
	for _, p := range parameters.All {
		if (p.Kind == parameters.Guardrail) != guardrails || !p.Of(s.Terms) {
			continue
		}
		switch v := p.Value(s).(type) {
		case time.Duration:
			values[p.Shown()] = v.Seconds()
		case limit.Exceptions:
			values[p.Shown()] = ExceptionsOf(v)
		default:
			values[p.Shown()] = v
		}
	}
	return values
}
