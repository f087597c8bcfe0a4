package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// List are the rules of a fleet.
type List struct {
	Revision int64  `json:"revision"`
	Rules    []Rule `json:"rules"`

	memory memory
	fault  error // the list or the memory in Redis can't be read
}

// Revisions that are no time of a change.
const (
	none  = 0 // Redis has no list
	first = 1 // nobody has made a rule yet
)

// memory is what Redis keeps beside the rules. A build that does not know it leaves it as it is when it changes the rules.
type memory struct {
	Highest int `json:"highest"` // the highest id that was given, also to a rule that has ended
}

// decode reads a list, and the memory beside it. What can't be read counts as empty.
func (l *List) decode(list, beside string) {
	var raw []json.RawMessage
	if list != "" {
		if err := json.Unmarshal([]byte(list), &raw); err != nil {
			l.fault, raw = fmt.Errorf("the list: %w", err), nil
		}
	}
	for _, one := range raw {
		l.Rules = append(l.Rules, decodeRule(one))
	}
	if beside != "" {
		if err := json.Unmarshal([]byte(beside), &l.memory); err != nil {
			l.fault, l.memory = errors.Join(l.fault, fmt.Errorf("the memory: %w", err)), memory{}
		}
	}
	l.memory.Highest = max(l.memory.Highest, highest(l.Rules)) // a build without the memory may have given the id
}

// decodeRule reads one rule. Of a rule that can't be read, it reads the id and the end if it can: so it can be ended, or ends by itself.
func decodeRule(raw json.RawMessage) (r Rule) {
	err := json.Unmarshal(raw, &r)
	if err == nil && r.Until.IsZero() {
		err = errors.New("it has no end")
	}
	if err != nil {
		var id struct{ ID string }
		var end struct{ Until time.Time }
		_, _ = json.Unmarshal(raw, &id), json.Unmarshal(raw, &end)
		r = Rule{ID: id.ID, Until: end.Until, fault: err}
	}
	r.raw = string(raw)
	return r
}

// encode writes rules. Those that came from Redis stay as they were: another version may have written fields that this one does not
// know.
func encode(rules []Rule) ([]byte, error) {
	all := make([]json.RawMessage, len(rules))
	for i, r := range rules {
		all[i] = json.RawMessage(r.raw)
		if r.raw == "" {
			text, err := json.Marshal(r)
			if err != nil {
				return nil, err
			}
			all[i] = text
		}
	}
	return json.Marshal(all)
}

// sameRules tells whether two lists are written alike.
func (l List) sameRules(other List) bool {
	one, err := encode(l.Rules)
	two, fault := encode(other.Rules)
	return err == nil && fault == nil && bytes.Equal(one, two)
}

// readable are the rules that this version can read.
func readable(rules []Rule) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.fault != nil })
}

// highest is the highest id of rules; 0: there is none.
func highest(rules []Rule) (most int) {
	for _, r := range rules {
		if n, err := strconv.Atoi(r.ID); err == nil {
			most = max(most, n)
		}
	}
	return most
}

// current are the rules that have not ended at a time. A rule whose end can't be read has not.
func current(rules []Rule, now time.Time) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return !r.Until.IsZero() && !r.Until.After(now) })
}
