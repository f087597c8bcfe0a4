package gates

import (
	"time"

	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/internal/slots"
)

// Ask is what a call says of gates.
type Ask struct {
	script.Gates

	index map[slots.Value]int // of the states
}

// Ask begins with what the node knows, at about that time on Redis's clock.
func (k *Known) Ask(now time.Time) (a Ask) {
	for _, one := range k.all {
		a.Names, a.Known = append(a.Names, one.name), append(a.Known, one.Settings)
		a.Quotas = append(a.Quotas, one.asked(now))
	}
	return a
}

// Job adds a job that wants a slot.
func (a *Ask) Job(q slots.Request) {
	if len(a.Known) == 0 {
		return
	}
	passes := make([]script.Pass, len(q.Passes))
	for i, p := range q.Passes {
		passes[i] = script.Pass{State: a.state(p.Value), Units: q.Counts(p)}
	}
	a.Jobs = append(a.Jobs, passes)
}

// Correct adds what a correction changes on gates.
func (a *Ask) Correct(c slots.Correction) {
	if len(a.Known) == 0 {
		return
	}
	if c.Blocks() {
		a.Corrections = append(a.Corrections, script.StateCorrection{State: a.state(c.Blocked), Block: true, Correction: script.Correction{Slot: c.Until}})
		return
	}
	for _, p := range c.Job.Passes {
		if units := c.On(p); units != 0 {
			a.Corrections = append(a.Corrections, script.StateCorrection{State: a.state(p.Value), Correction: script.Correction{Slot: c.At, Units: units}})
		}
	}
}

// state is the index of the state of a value, which is named once.
func (a *Ask) state(of slots.Value) int {
	i, known := a.index[of]
	if !known {
		if a.index == nil {
			a.index = make(map[slots.Value]int)
		}
		i = len(a.States)
		a.index[of] = i
		a.States = append(a.States, script.State{Gate: of.Gate, Hash: of.Hash})
	}
	return i
}
