package control

import (
	"cmp"
	"fmt"
	"reflect"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/throttle/limit"
)

// Change says which settings are to become different; nil leaves one as it is. A
// pointer changes the field of its name in [Terms] or [Guardrails]. A change is for
// good: it holds now, and still holds when an override ends. With For it is an
// override.
type Change struct {
	Algorithm *string

	Cap      *int64
	Window   *time.Duration
	Burst    *int64
	Guard    *time.Duration
	Lateness *time.Duration
	Spread   *time.Duration
	Auto     *bool // true: the fleet chooses Guard and Lateness, and begins with this Lateness
	Horizon  *time.Duration
	Paused   *bool
	MaxCap   *int64
	MaxStep  *float64

	For        time.Duration // after which the terms return by themselves; 0: for good
	IfRevision int64         // refuse where another one is in force; 0: whichever
	Force      bool          // pass the guardrails
	By         string        // who asks for it, for people
	Why        string        // what for
	undid      int64         // the revision that the change takes back; 0: none
}

// Bounds of a [Change].
const (
	MinOverride = time.Second
	MaxOverride = 31 * 24 * time.Hour
	maxWhy      = 200 // bytes
)

func (ch Change) validate() error {
	var faults fault.List
	if ch.For != 0 {
		faults.Between("for", ch.For, MinOverride, MaxOverride)
	}
	faults.Refuse(len(ch.Why) > maxWhy, "why", len(ch.Why), "bytes are more than %d", maxWhy)
	return faults.Err()
}

// each calls f with each pointer of the change, and the name that it shares with a
// field of a struct. The guard and its parts are left out: they are set together.
func (ch *Change) each(of any, f func(pointer reflect.Value, name string)) {
	v, t := reflect.ValueOf(ch).Elem(), reflect.TypeOf(of)
	for field := range v.Type().Fields() {
		_, shared := t.FieldByName(field.Name)
		if shared && field.Type.Kind() == reflect.Pointer && field.Name != "Guard" && field.Name != "Lateness" && field.Name != "Auto" {
			f(v.FieldByIndex(field.Index), field.Name)
		}
	}
}

// assign puts the fields that the change sets into terms or guardrails.
func assign[T limit.Terms | limit.Guardrails](ch Change, to *T) {
	ch.each(*to, func(pointer reflect.Value, name string) {
		if !pointer.IsNil() {
			reflect.ValueOf(to).Elem().FieldByName(name).Set(pointer.Elem())
		}
	})
}

// restore makes the change set the fields in which now differs from before, as they were
// before; without now, all of them.
func restore[T limit.Terms | limit.Guardrails](ch *Change, now *T, before T) {
	ch.each(before, func(pointer reflect.Value, name string) {
		was := reflect.ValueOf(before).FieldByName(name)
		if now == nil || !reflect.ValueOf(*now).FieldByName(name).Equal(was) {
			pointer.Set(reflect.New(was.Type()))
			pointer.Elem().Set(was)
		}
	})
}

// apply returns the settings that the change leads to at now.
func (ch Change) apply(s limit.Settings, now time.Time) limit.Settings {
	to := s.Successor(ch.By, ch.Why, now)
	to.Undid = ch.undid
	assign(ch, &to.Guardrails)
	ch.applyTo(&to.Terms)
	on := !s.RevertAt.IsZero()
	switch {
	case ch.For > 0:
		if !on { // else RevertTo stays what it was before the first override
			to.RevertTo = s.Terms
		}
		to.RevertAt = to.Changed.Add(ch.For)
		return to
	case on:
		ch.applyTo(&to.RevertTo)
		if to.RevertTo != to.Terms {
			return to
		}
	}
	to.RevertTo, to.RevertAt = limit.Terms{}, time.Time{}
	return to
}

func (ch Change) applyTo(t *limit.Terms) {
	assign(ch, t)
	ch.applyGuard(&t.Contract)
}

// applyGuard comes after the window, which bounds a lateness that is chosen. Where
// the fleet chose before, a guard that is stated is the spread and, the rest of it,
// the lateness.
func (ch Change) applyGuard(c *limit.Contract) {
	auto := c.Auto && ch.Guard == nil
	set(&auto, ch.Auto)
	if !auto && c.Auto && ch.Guard != nil {
		c.Lateness = *ch.Guard - c.Spread
	}
	c.Auto = auto
	set(&c.Guard, ch.Guard)
	set(&c.Lateness, ch.Lateness)
	if auto {
		if c.Spread == 0 {
			c.Spread = limit.DefaultSpread
		}
		*c = c.WithLateness(c.Lateness)
	}
}

// checkGuard refuses a change of the values that the fleet chooses.
func (ch Change) checkGuard(c limit.Contract) error {
	var faults fault.List
	auto := c.Auto
	set(&auto, ch.Auto)
	switch {
	case ch.Guard != nil && ch.Auto != nil && *ch.Auto:
		faults.Refuse(true, "guard", *ch.Guard, "can't be auto as well")
	case auto && ch.Auto == nil && ch.Guard == nil && ch.Lateness != nil:
		faults.Refuse(true, "lateness", *ch.Lateness, "is chosen by the fleet while the guard is auto; state the guard as well")
	}
	return faults.Err()
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
	var given limit.Guardrails // the ones that the change leaves alone may have been passed by force
	assign(ch, &given)
	if err := given.Validate(to.Contract); err != nil || ch.Force {
		return err
	}
	if to.UsableShare() < from.UsableShare() { // the terms in force may have been forced
		if err := to.Waste(); err != nil {
			return fmt.Errorf("%w; --force passes it", err)
		}
	}
	// The guardrails from before hold too: nobody passes one by moving it on the way.
	return cmp.Or(from.Pass(from.Terms, to.Terms), to.Pass(from.Terms, to.Terms))
}

func set[T any](field, to *T) {
	if to != nil {
		*field = *to
	}
}
