package rules

import (
	"fmt"
	"time"

	"dispatcher/internal/audit"
	"dispatcher/internal/expression"
	"dispatcher/internal/fault"
)

// Bounds of the rules.
const (
	MostRules = 32
	Longest   = 31 * 24 * time.Hour
)

// Kind is what a rule does with a job.
type Kind string

// The kinds.
const (
	Cancel Kind = "cancel" // it becomes a dead letter
	Hold   Kind = "hold"   // it waits
)

// Rule cancels or holds jobs.
type Rule struct {
	ID    string    `json:"id"` // [Store.Add] sets it, as Made
	Kind  Kind      `json:"kind"`
	When  string    `json:"when"` // an expression, true for the jobs that it is about
	Until time.Time `json:"until"`
	Made  time.Time `json:"made"`
	By    string    `json:"by"`
	Why   string    `json:"why,omitempty"`

	raw   string // as Redis has it; empty: the rule is new
	fault error  // it can't be read
}

// Validate returns the faults of a rule that is made at a time.
func (r Rule) Validate(now time.Time) error {
	var l fault.List
	l.OneOf("kind", string(r.Kind), string(Cancel), string(Hold))
	l.Under("", CheckWhen(r.When))
	l.Refuse(!r.Until.After(now), "until", r.Until.UTC().Format(time.RFC3339), "must be in the future")
	l.Refuse(r.Until.Sub(now) > Longest, "until", r.Until.UTC().Format(time.RFC3339), "must be within %s; make the rule again before it ends", Longest)
	l.Under("", audit.CheckWhy(r.Why))
	return l.Err()
}

// CheckWhen returns the fault of a rule's expression.
func CheckWhen(when string) error {
	if when == "" {
		return fault.New("when", when, `is needed: the jobs that the rule is about, such as job.headers["campaign"] == "spring"`)
	}
	if _, err := expression.CompileCondition(when); err != nil {
		return fault.New("when", when, reason(err))
	}
	return nil
}

// ParseUntil reads the end of a rule.
func ParseUntil(text string) (time.Time, error) {
	until, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return until, fault.New("until", text, "must be a time such as 2026-11-30T18:00:00Z")
	}
	return until, nil
}

func reason(err error) string {
	if e, ok := err.(*expression.Error); ok { //nolint:errorlint // the compiler returns nothing else
		return e.Reason
	}
	return err.Error()
}

// CancelledError says that a rule cancelled a job.
type CancelledError struct{ Rule Rule }

func (e *CancelledError) Error() string {
	return fmt.Sprintf("cancelled by %s%s (rule %s)", e.Rule.By, audit.Because(e.Rule.Why), e.Rule.ID)
}
