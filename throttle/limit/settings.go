package limit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/throttle/limit/quota"
)

// Terms are the settings of a limit but its guardrails: the contract, the algorithm that keeps it, whether it is paused, and what only
// the first limit (Weights) or only a gate has.
type Terms struct {
	Contract    `yaml:",inline"`
	Algorithm   string           `yaml:"algorithm" json:"algorithm"` // name of one of [Algorithms]
	Gate        bool             `yaml:"-" json:"gate,omitempty"`    // a limit after the first: see [Terms.Beside]
	quota.Quota `yaml:",inline"` // of a gate
	Exceptions  Exceptions       `yaml:"-" json:"exceptions,omitempty"`    // of a gate with a key
	Weights     string           `yaml:"weights" json:"weights,omitempty"` // of tenants: see [Terms.TenantWeights]
	Paused      bool             `yaml:"-" json:"paused"`
}

// Validate refuses terms that the algorithm or a gate can't keep, with a [fault.Error] for
// each.
func (t Terms) Validate() error {
	if t.Gate {
		return t.validateGate()
	}
	a, unknown := AlgorithmNamed(t.Algorithm)
	if err := errors.Join(unknown, t.Contract.Validate()); err != nil {
		return err
	}
	var faults fault.List
	a.check(t.Contract, &faults)
	faults.Refuse(t.Exceptions != "", "exceptions", string(t.Exceptions), "is for a limit with a key")
	_, err := t.TenantWeights()
	faults.Under("", err)
	return faults.Err()
}

// Pace is the rate at which the terms' algorithm grants units, as [Algorithm.Pace]
// gives it.
func (t Terms) Pace() (units, period int64) {
	a, err := AlgorithmNamed(t.Algorithm)
	if err != nil {
		return t.Contract.Pace() // of a newer release
	}
	return a.Pace(t.Contract)
}

// Spacing is the time between two slots at the pace of the terms' algorithm.
func (t Terms) Spacing() time.Duration { return spacing(t.Pace()) }

// String is the terms in one line.
func (t Terms) String() string {
	text := t.Contract.String()
	if t.Gate {
		text = fmt.Sprintf("%d in %s beside the first limit", t.Cap, t.WindowText())
		if t.MaxCost > 1 {
			text += fmt.Sprintf(", jobs of up to %d units", t.MaxCost)
		}
		if t.Exceptions != "" {
			text += fmt.Sprintf(", other caps of %d values", strings.Count(string(t.Exceptions), "="))
		}
	} else if t.Algorithm != DefaultAlgorithm {
		text += ", " + t.Algorithm
	}
	if t.Paused {
		return "paused, " + text
	}
	return text
}

// Settings are a limit as it is in force: its terms and guardrails, and the change
// that made them so. They live in Redis; the file only seeds them.
type Settings struct {
	Terms
	Guardrails
	Revision int64     `json:"revision"`        // counts the changes, from 1
	Changed  time.Time `json:"-"`               // when, by Redis's clock; zero: seeded from a file
	By       string    `json:"by"`              // who made the change
	Why      string    `json:"why"`             // what for
	Undid    int64     `json:"undid,omitempty"` // the revision that the change took back; 0: it was no undo

	RevertAt time.Time `json:"-"` // when an override ends and RevertTo holds, by Redis's clock; zero: no override
	RevertTo Terms     `json:"-"` // until the next override ends, see [Settings.Spans]

	Began time.Time `json:"-"` // where the timeline of these settings began, by Redis's clock; zero: seeded

	packed   string // as Redis holds them; empty: made here
	revertTo string // the packed settings that hold from RevertAt on; empty: made of RevertTo
}

// Dispatcher is the author of a change that no operator made.
const Dispatcher = "dispatcher"

// Same reports whether a change to other would change nothing. An override that ends
// with the terms in force is none.
func (s Settings) Same(other Settings) bool {
	if s.Guardrails != other.Guardrails {
		return false
	}
	return slices.EqualFunc(merged(s.Spans()), merged(other.Spans()), func(a, b Span) bool {
		return a.Terms == b.Terms && a.Until.Equal(b.Until)
	})
}

// Newer reports whether s was made after other. The time decides and not the
// count: a Redis that lost its data and was seeded again counts from 1 again.
func (s Settings) Newer(other Settings) bool { return s.Changed.After(other.Changed) }

// Stricter reports whether slots that were reserved under old may be too many for s. A longer guard alone makes none too many:
// it is for calls that are later, and the calls of those slots are not.
func (s Settings) Stricter(old Settings) bool {
	if s.Algorithm != old.Algorithm || s.cutsOneValue(old.Terms) {
		return true
	}
	if s.Paused || old.Contract == s.Contract {
		return s.Paused && !old.Paused
	}
	now := s.Terms
	now.Guard = old.Guard
	units, period := now.Pace()
	unitsOld, periodOld := old.Pace()
	return float64(units)*float64(periodOld) < float64(unitsOld)*float64(period) || s.Window > old.Window
}

// Successor is a copy of the settings for a change made at now, which is behind the
// change that made s. Who changes an override in it states all spans, by [Settings.WithSpans].
func (s Settings) Successor(by, why string, now time.Time) Settings {
	s.packed, s.revertTo = "", ""
	s.By, s.Why, s.Undid, s.Revision, s.Changed = by, why, 0, s.Revision+1, s.behind(now)
	return s
}

// behind is a time, or the first one behind the change that made s: that may be a time of a clock that was ahead.
func (s Settings) behind(t time.Time) time.Time {
	if !t.After(s.Changed) {
		return s.Changed.Add(time.Microsecond)
	}
	return t
}

// Reverted are the settings that follow an override at its end. They are newer than the override, also one that was made
// while Redis's clock was ahead.
func (s Settings) Reverted() Settings {
	if after, err := Unpack(s.revertTo); err == nil {
		return after
	}
	return Settings{
		Terms: s.RevertTo, Guardrails: s.Guardrails,
		Changed: s.behind(s.RevertAt), Revision: s.Revision + 1, By: Dispatcher, Why: "the override is over",
	}
}

// ReservePeriod is the time in which a node's units of the reserve may be used: under an
// override the longer one of the override and of what follows it, since a node that
// is cut off does not see it end.
func (s Settings) ReservePeriod() time.Duration {
	period := s.Window + s.Guard
	if !s.RevertAt.IsZero() {
		period = max(period, s.RevertTo.Window+s.RevertTo.Guard)
	}
	return period
}
