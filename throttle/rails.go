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

// pass reports the first rail that stands between two terms. The ceiling is one on
// what a window may hold; the step one on the rate that is sustained, up and down,
// whatever setting changes it. A pause is no step.
func (r Rails) pass(from, to Terms) error {
	if r.MaxCap != 0 && to.Cap > r.MaxCap && to.Cap > from.Cap {
		return &RailError{Rail: "max_cap", Why: fmt.Sprintf("a cap of %d is above the ceiling of %d", to.Cap, r.MaxCap)}
	}
	step := to.sustained() / from.sustained()
	if step = max(step, 1/step); r.MaxStep != 0 && step*railOne > float64(r.MaxStep)*(1+1e-9) {
		return &RailError{Rail: "max_step", Why: fmt.Sprintf("from %.4g to %.4g calls a second that can be sustained is a step of %.4g times, and %.4g is the most",
			from.sustained(), to.sustained(), step, float64(r.MaxStep)/railOne)}
	}
	return nil
}

// sustained is how many units a second are used while jobs wait.
func (t Terms) sustained() float64 {
	return t.UsableShare() * float64(t.Cap) / math.Max(t.Window.Seconds(), 1e-6)
}

// UsableShare is the part of the cap, from 0 to 1, that the terms' algorithm uses while
// jobs wait.
func (t Terms) UsableShare() float64 {
	a, err := AlgorithmNamed(t.Algorithm)
	if err != nil {
		return t.Share() // of a newer release
	}
	return a.Share(t.Contract)
}

// What a limit should leave of its cap.
const (
	LeastShare = 0.5 // less is refused
	FairShare  = 0.9 // less is worth a warning
)

// waste is a [FieldError] about terms that leave less than [LeastShare] of the cap.
func (t Terms) waste() error {
	left := t.UsableShare()
	if left >= LeastShare {
		return nil
	}
	fault := &FieldError{Field: "guard", Value: t.Guard, Why: fmt.Sprintf("leaves %.3f of the cap: it is too long for a window of %s; at least %g is to be left", left, t.Window, LeastShare)}
	switch least := t.Contract; {
	case t.Burst > 1:
		fault.Field, fault.Value = "burst", t.Burst
		fault.Why = fmt.Sprintf("leaves %.3f of the cap for a steady rate, since a burst may come in any window; at least %g is to be left, so at most %d", left, LeastShare, max(1, (least.Cap-least.Reserve)/2))
	case t.Reserve > 0:
		fault.Field, fault.Value = "reserve", t.Reserve
		fault.Why = fmt.Sprintf("leaves %.3f of the cap; at least %g is to be left", left, LeastShare)
	}
	return fault
}

// CheckShare refuses terms of a file that leave less than [LeastShare] of the cap.
// The error is a [FieldError].
func CheckShare(algorithm string, c Contract) error {
	return Terms{Contract: c, Algorithm: algorithm}.waste()
}

// StepOf is a factor as [Rails] hold it, in thousandths: 0 stays no rail, and what
// is too small to be one, or no number, is no 0.
func StepOf(factor float64) int64 {
	n := int64(math.Round(factor * railOne))
	if n == 0 && factor != 0 || math.IsNaN(factor) {
		return 1
	}
	return n
}
