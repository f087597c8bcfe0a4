package control

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"dispatcher/internal/audit"
	"dispatcher/internal/fault"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// Change says which settings are to become different. It is for good: it holds now, and
// still holds when an override ends. With For it is an override.
type Change struct {
	Values parameters.Values

	For        time.Duration // after which the terms return by themselves; 0: for good
	IfRevision int64         // refuse where another one is in force; 0: whichever
	Force      bool          // pass the guardrails
	By         string        // who asks for it, for people
	Why        string        // what for
	undid      int64         // the revision that the change takes back; 0: none
	value      *valueChange  // of one value of the key alone; nil: of the limit
}

// put puts the change into settings at now.
func (ch Change) put(s *limit.Settings, now time.Time) error {
	if ch.value != nil {
		return ch.value.put(s, now)
	}
	return ch.Values.Apply(s)
}

// Bounds of a [Change].
const (
	MinOverride = time.Second
	MaxOverride = 31 * 24 * time.Hour
)

func (ch Change) validate() error {
	var faults fault.List
	if ch.For != 0 {
		faults.Between("for", ch.For, MinOverride, MaxOverride)
	}
	return errors.Join(faults.Err(), audit.CheckWhy(ch.Why))
}

// apply returns the settings that the change leads to at now.
func (ch Change) apply(s limit.Settings, now time.Time) (limit.Settings, error) {
	to := s.Successor(ch.By, ch.Why, now)
	to.Undid = ch.undid
	if err := ch.put(&to, now); err != nil {
		return s, err
	}
	on := !s.RevertAt.IsZero()
	switch {
	case ch.For > 0:
		if !on { // else RevertTo stays what it was before the first override
			to.RevertTo = s.Terms
		}
		to.RevertAt = now.Add(ch.For) // not behind Changed, which may be a time of a clock that was ahead
		return to, nil
	case on:
		after := limit.Settings{Terms: to.RevertTo}
		err := ch.put(&after, now)
		if to.RevertTo = after.Terms; err != nil || to.RevertTo != to.Terms {
			return to, err
		}
	}
	to.RevertTo, to.RevertAt = limit.Terms{}, time.Time{}
	return to, nil
}

// check refuses settings that can't be kept, or that a guardrail refuses.
func (ch Change) check(from, to limit.Settings) error {
	if err := to.Terms.Validate(); err != nil {
		return err
	}
	if to.RevertTo != (limit.Terms{}) {
		if err := to.RevertTo.Validate(); err != nil {
			return fmt.Errorf("when the override ends: %w", err)
		}
	}
	var faults fault.List
	faults.Refuse(from.MaxNodes > 0 && (to.Window != from.Window || to.Guard != from.Guard), "window", to.Window,
		"can't change, nor can the guard, while nodes may hold leases of a reserve: "+
			"one that can't reach Redis would not see it; stop the fleet, change the file and delete the limit's keys")
	if err := faults.Err(); err != nil {
		return err
	}
	var given limit.Settings // the guardrails that the change leaves alone may have been passed by force
	if err := cmp.Or(ch.Values.Apply(&given), given.Guardrails.Validate(to.Contract)); err != nil || ch.Force {
		return err
	}
	if to.UsableShare() < from.UsableShare() { // the terms in force may have been forced
		if err := to.Waste(); err != nil {
			return fmt.Errorf("%w; --force passes it", err)
		}
	}
	// The guardrails from before hold too: nobody passes one by moving it on the way.
	if err := cmp.Or(from.Pass(from.Terms, to.Terms), to.Pass(from.Terms, to.Terms)); err != nil {
		return err
	}
	return checkValues(from, to)
}

// checkValues refuses what a guardrail of the gate refuses for a single value.
func checkValues(from, to limit.Settings) error {
	for _, c := range limit.ChangedExceptions(from.Exceptions, to.Exceptions) {
		before, after := from.Terms, to.Terms
		before.Cap, after.Cap = cmp.Or(c.From, from.Cap), cmp.Or(c.To, to.Cap)
		if err := cmp.Or(from.Pass(before, after), to.Pass(before, after)); err != nil {
			return err
		}
		if err := after.Waste(); err != nil && after.UsableShare() < before.UsableShare() {
			return fmt.Errorf("%w; --force passes it", err)
		}
	}
	return nil
}
