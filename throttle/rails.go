package throttle

import (
	"fmt"
	"math"
)

// RailError is a change that a rail stands in the way of; forced, it is made.
type RailError struct {
	Rail string // max_cap or max_step
	Why  string
}

func (e *RailError) Error() string {
	return fmt.Sprintf("%s: %s; nothing was changed: --force passes it", e.Rail, e.Why)
}

// RevisionError is a change that was meant for other settings than those in
// force: somebody was faster.
type RevisionError struct {
	Wanted int64
	Now    Settings
}

func (e *RevisionError) Error() string {
	return fmt.Sprintf("revision %d was expected, but %d is in force (%s, by %s): nothing was changed", e.Wanted, e.Now.Revision, e.Now.Terms, e.Now.By)
}

// validate joins a [FieldError] for each rail that is none, or that the contract
// passes already.
func (r Rails) validate(c Contract) []error {
	var faults []error
	if r.MaxCap != 0 && r.MaxCap < c.Cap {
		faults = append(faults, &FieldError{Field: "max_cap", Value: r.MaxCap, Why: fmt.Sprintf("must be at least the cap of %d, or 0 for none", c.Cap)})
	}
	if r.MaxStep != 0 && r.MaxStep <= railOne {
		faults = append(faults, &FieldError{Field: "max_step", Value: float64(r.MaxStep) / railOne, Why: "must be above 1, or 0 for none"})
	}
	return faults
}

// railOne is a step that changes nothing.
const railOne = 1000

// pass reports the first rail that stands between two contracts. The ceiling is
// one on what a window may hold; the step one on the rate, up and down.
func (r Rails) pass(from, to Contract) error {
	if r.MaxCap != 0 && to.Cap > r.MaxCap && to.Cap > from.Cap {
		return &RailError{Rail: "max_cap", Why: fmt.Sprintf("a cap of %d is above the ceiling of %d", to.Cap, r.MaxCap)}
	}
	step := rate(to) / rate(from)
	if step = max(step, 1/step); r.MaxStep != 0 && step*railOne > float64(r.MaxStep)*(1+1e-9) {
		return &RailError{Rail: "max_step", Why: fmt.Sprintf("from %d in %s to %d in %s is a step of %.4g times, and %.4g is the most",
			from.Cap, from.Window, to.Cap, to.Window, step, float64(r.MaxStep)/railOne)}
	}
	return nil
}

func rate(c Contract) float64 { return float64(c.Cap) / math.Max(c.Window.Seconds(), 1e-6) }

// StepOf is a factor as [Rails] hold it, in thousandths: 0 stays no rail, and what
// is too small to be one, or no number, is no 0.
func StepOf(factor float64) int64 {
	n := int64(math.Round(factor * railOne))
	if n == 0 && factor != 0 || math.IsNaN(factor) {
		return 1
	}
	return n
}
