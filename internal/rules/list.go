package rules

import (
	"encoding/json"
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
}

// memory is what Redis keeps beside the rules. A build that does not know it leaves it as it is when it changes the rules.
type memory struct {
	Highest int `json:"highest"` // the highest id that was given, also to a rule that has ended
}

// decode reads a list, and the memory beside it.
func (l *List) decode(list, beside string) error {
	if list != "" {
		if err := json.Unmarshal([]byte(list), &l.Rules); err != nil {
			return fmt.Errorf("rules: the list in Redis: %w", err)
		}
	}
	if beside != "" {
		if err := json.Unmarshal([]byte(beside), &l.memory); err != nil {
			return fmt.Errorf("rules: the memory in Redis: %w", err)
		}
	}
	l.memory.Highest = max(l.memory.Highest, highest(l.Rules)) // a build without the memory may have given the id
	return nil
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

// current are the rules that have not ended at a time.
func current(rules []Rule, now time.Time) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return !r.Until.After(now) })
}
