package limit

import (
	"cmp"
	"fmt"
	"math"
	"sort"

	"dispatcher/internal/fault"
)

// Guardrails are bounds that no change passes unless it is forced. Zero: none.
type Guardrails struct {
	MaxCap  int64   `yaml:"max_cap" json:"max_cap"`   // units in a window
	MaxStep float64 `yaml:"max_step" json:"max_step"` // by which factor the rate may grow or shrink at once: 2 is double or half
}

// mostStep is far above any step that is meant, and a number that JSON holds.
const mostStep = 1e9

// Validate refuses guardrails that are none, or that the contract passes already,
// with a [fault.Error] for each.
func (g Guardrails) Validate(c Contract) error {
	var faults fault.List
	faults.Refuse(g.MaxCap != 0 && g.MaxCap < c.Cap, "max_cap", g.MaxCap, "must be at least the cap of %d, or 0 for none", c.Cap)
	step := g.MaxStep > 1 && g.MaxStep <= mostStep
	faults.Refuse(g.MaxStep != 0 && !step, "max_step", g.MaxStep, "must be above 1, or 0 for none")
	return faults.Err()
}

// GuardrailError is a change that a guardrail refuses; forced, it is made.
type GuardrailError struct {
	Guardrail string // max_cap, max_step, or the setting that wastes the cap
	Why       string
}

func (e *GuardrailError) Error() string {
	return fmt.Sprintf("%s: %s; nothing was changed: --force passes it", e.Guardrail, e.Why)
}

// Pass reports the first guardrail that refuses a change of terms. MaxCap bounds the
// cap. MaxStep bounds the rate that is sustained, up and down, whichever setting
// changes it. A pause is no step.
func (g Guardrails) Pass(from, to Terms) error {
	if g.MaxCap != 0 && to.Cap > g.MaxCap && to.Cap > from.Cap {
		return &GuardrailError{Guardrail: "max_cap", Why: fmt.Sprintf("a cap of %d is above the ceiling of %d", to.Cap, g.MaxCap)}
	}
	step := to.sustained() / from.sustained()
	if step = max(step, 1/step); g.MaxStep != 0 && step > g.MaxStep*(1+1e-9) {
		return &GuardrailError{Guardrail: "max_step", Why: fmt.Sprintf("from %.4g to %.4g calls a second that can be sustained is a step of %.4g times, and %.4g is the most",
			from.sustained(), to.sustained(), step, g.MaxStep)}
	}
	return nil
}

// sustained is how many units a second are used while jobs wait.
func (t Terms) sustained() float64 {
	return t.UsableShare() * float64(t.Cap) / math.Max(t.Window.Seconds(), 1e-6)
}

// UsableShare is the part of the cap, from 0 to 1, that the terms' algorithm uses while
// jobs wait. For a gate it is [Contract.GateShare].
func (t Terms) UsableShare() float64 {
	if t.Gate {
		return t.GateShare()
	}
	a, err := AlgorithmNamed(t.Algorithm)
	if err != nil {
		return t.Share() // of a newer release
	}
	return a.Share(t.Contract)
}

// How much a limit should leave of its cap.
const (
	LeastShare = 0.5 // less is refused
	FairShare  = 0.9 // less is worth a warning
)

// Waste refuses terms that leave less than [LeastShare] of the cap. The error is a
// [fault.Error].
func (t Terms) Waste() error {
	if t.Gate {
		return t.wasteOfGate()
	}
	var faults fault.List
	left := t.UsableShare()
	if left >= LeastShare {
		return nil
	}
	left = math.Floor(1000*left) / 1000 // as it is shown: never as what is to be left
	unreserved := t
	unreserved.Reserve = 0
	switch most, contract := t.mostBurst(), t.Share(); {
	case contract >= LeastShare && unreserved.UsableShare() >= LeastShare: // the contract leaves enough, and so does the algorithm
		faults.Refuse(true, "reserve", t.Reserve, "leaves %.3f of the cap with %s; at least %g is to be left: reserve less, or choose another algorithm",
			left, cmp.Or(t.Algorithm, DefaultAlgorithm), LeastShare)
	case contract >= LeastShare:
		faults.Refuse(true, "algorithm", cmp.Or(t.Algorithm, DefaultAlgorithm),
			"uses %.3f of a cap of %d; at least %g is to be used: choose another algorithm", left, t.Cap, LeastShare)
	case t.LargestCost() > t.Burst:
		faults.Refuse(true, "max_cost", t.MaxCost, "leaves %.3f of the cap, since a job may come in any window; at least %g is to be left: choose sliding_window_log",
			left, LeastShare)
	case t.Burst > 1 && most > 0:
		faults.Refuse(true, "burst", t.Burst, "leaves %.3f of the cap for a steady rate, since a burst may come in any window; at least %g is to be left, so at most %d",
			left, LeastShare, most)
	case t.Reserve > 0:
		faults.Refuse(true, "reserve", t.Reserve, "leaves %.3f of the cap; at least %g is to be left", left, LeastShare)
	default:
		faults.Refuse(true, "guard", t.Guard, "leaves %.3f of the cap: it is too long for a window of %s; at least %g is to be left", left, t.Window, LeastShare)
	}
	return faults.Err()
}

// mostBurst is the largest burst, up to the present one, with which the terms leave [LeastShare] of the cap; 0: none does.
func (t Terms) mostBurst() int64 {
	return int64(sort.Search(int(t.Burst), func(smaller int) bool {
		t.Burst = int64(smaller) + 1
		return t.UsableShare() < LeastShare
	}))
}
