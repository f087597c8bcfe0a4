package control

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
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

// apply returns the settings that the change leads to at now. The settings that it leaves alone return at their own times.
func (ch Change) apply(s limit.Settings, now time.Time) (limit.Settings, error) {
	to := s.Successor(ch.By, ch.Why, now)
	to.Undid = ch.undid
	if err := ch.put(&to, now); err != nil {
		return s, err
	}
	spans, err := ch.spread(s.Spans(), now)
	if err := cmp.Or(err, validate(spans)); err != nil {
		return to, err
	}
	return to.WithSpans(spans), nil
}

// spread puts the change into all terms until it ends. Behind that it leaves the terms as they would be without it, and without
// the overrides that it replaces.
func (ch Change) spread(old []limit.Span, now time.Time) (spans []limit.Span, err error) {
	var ends time.Time
	if ch.For > 0 {
		ends = now.Add(ch.For) // not behind Changed, which may be a time of a clock that was ahead
	}
	usual, began := old[len(old)-1].Terms, now
	for _, one := range old {
		during := limit.Settings{Terms: one.Terms}
		after, unreturned := ch.returned(one.Terms, usual)
		if err := cmp.Or(ch.put(&during, now), unreturned); err != nil {
			return spans, err
		}
		if ends.IsZero() || began.Before(ends) {
			spans = append(spans, limit.Span{Terms: during.Terms, Until: earlier(one.Until, ends)})
		}
		if !ends.IsZero() && (one.Until.IsZero() || one.Until.After(ends)) {
			spans = append(spans, limit.Span{Terms: after, Until: one.Until})
		}
		began = one.Until
	}
	return spans, nil
}

// validate refuses terms that can't be kept, now or later.
func validate(spans []limit.Span) error {
	if err := spans[0].Validate(); err != nil {
		return err
	}
	for _, after := range spans[1:] {
		if err := after.Validate(); err != nil {
			return fmt.Errorf("when the override ends: %w", err)
		}
	}
	return nil
}

// earlier is the first of two times; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// returned are terms in which the settings that the change names are as usual again: the change replaces their overrides.
func (ch Change) returned(t, usual limit.Terms) (limit.Terms, error) {
	s, base := limit.Settings{Terms: t}, limit.Settings{Terms: usual}
	_, guard := ch.Values["guard"]
	named := slices.DeleteFunc(parameters.Differences(s, base), func(p parameters.Parameter) bool {
		_, is := ch.Values[p.Name]
		return !is && (!guard || p.Name != "lateness") // which may have followed from the guard
	})
	err := parameters.Restore(base, named).Apply(&s)
	return s.Terms, err
}

// check refuses settings that can't be kept, or that a guardrail refuses.
func (ch Change) check(from, to limit.Settings) error {
	var faults fault.List
	ends := len(to.Spans()) - 1
	faults.Refuse(ends > limit.MaxEnds, "for", ch.For, "settings would return at %d times, and may at %d: let it end with another change, or leave it out", ends, limit.MaxEnds)
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
	if err := wasted(from.Terms, to.Terms); err != nil {
		return err
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
		if err := wasted(before, after); err != nil {
			return err
		}
	}
	return nil
}

// wasted refuses terms that waste the cap, unless those before did so more: they may have been forced.
func wasted(before, after limit.Terms) error {
	waste, is := errors.AsType[*fault.Error](after.Waste())
	if !is || after.UsableShare() >= before.UsableShare() {
		return nil
	}
	return &limit.GuardrailError{Guardrail: waste.Field, Why: fmt.Sprintf("%v: %s", waste.Value, waste.Remedy)}
}
