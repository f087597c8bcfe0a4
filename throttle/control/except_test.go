package control_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// An exception is a change like any other: in the history, and undone. It ends by itself, and
// an override of the limit ends beside it.
func TestOneValueHasACapOfItsOwn(t *testing.T) {
	t.Parallel()
	c := newGate(t)
	of := limit.HashOf("+4670")
	except := func(units int64, ch control.Change) limit.Settings {
		t.Helper()
		s, err := c.Except(t.Context(), of, units, ch)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	now := func() time.Time {
		t.Helper()
		at, err := c.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	s := except(9, control.Change{By: "ops", Why: "support"})
	if got := s.For(of, now()).Cap; got != 9 || s.Cap != 5 || s.By != "ops" || s.Why != "support" || s.For(limit.HashOf("other"), now()).Cap != 5 {
		t.Errorf("got %d of %+v, want 9 for the value and 5 for others", got, s)
	}
	if _, err := c.Except(t.Context(), of, 9, control.Change{}); !errors.Is(err, control.ErrUnchanged) {
		t.Errorf("got %v, want nothing changed", err)
	}
	s = c.must(t, capFor(6, time.Hour))
	ends := s.RevertAt
	s = except(8, control.Change{For: time.Minute})
	one, _ := s.Exceptions.Find(of, now())
	if !s.RevertAt.Equal(ends) || s.RevertTo.Exceptions != s.Exceptions || one.Cap != 8 || (one.Until.Sub(s.Changed)-time.Minute).Abs() > time.Second {
		t.Errorf("got %+v of %+v, want it until a minute on, and the override as it was", one, s)
	}
	if s, err := c.Undo(t.Context(), 0, control.Change{}); err != nil || s.For(of, now()).Cap != 9 || s.Cap != 6 {
		t.Errorf("got %+v, %v, want 9 again, and the override still", s, err)
	}
	if s = except(0, control.Change{}); s.Exceptions != "" || s.RevertTo.Exceptions != "" {
		t.Errorf("got %q, want no exception", s.Exceptions)
	}
	history, err := c.History(t.Context(), 10)
	if err != nil || len(history) != 5 || len(limit.ChangedExceptions(history[4].From.Exceptions, history[4].To.Exceptions)) != 1 {
		t.Errorf("got %+v, %v, want five changes, the first of an exception", history, err)
	}
}

func TestAnExceptionThatCanNotBeKeptIsRefused(t *testing.T) {
	t.Parallel()
	c := newGate(t)
	c.must(t, control.Change{Values: parameters.Values{"max_cap": "20", "max_step": "2", "max_cost": "2"}})
	of := limit.HashOf("+4670")
	for _, row := range []struct {
		units int64
		ch    control.Change
		want  string
	}{
		{-1, control.Change{}, "cap: -1: must be at least 1"},
		{1, control.Change{}, "max_cost: 2: must be at most 1"},
		{21, control.Change{}, "max_cap: a cap of 21 is above the ceiling of 20"},
		{11, control.Change{}, "max_step: from"},
		{2, control.Change{}, "--force passes it"},
		{6, control.Change{For: time.Millisecond}, "for: 1ms: must be from"},
		{6, control.Change{IfRevision: 7}, "revision 7 was expected, but 2 is in force"},
		{6, control.Change{Why: strings.Repeat("ü", 201)}, "why: 201: must have at most 200 characters"},
	} {
		if _, err := c.Except(t.Context(), of, row.units, row.ch); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%d, %+v: got %v, want %s", row.units, row.ch, err, row.want)
		}
	}
	if s, err := c.Except(t.Context(), of, 21, control.Change{Force: true}); err != nil || s.For(of, s.Changed).Cap != 21 {
		t.Errorf("got %+v, %v, want the guardrails passed by force", s, err)
	}
	if _, err := c.Except(t.Context(), of, 0, control.Change{}); err == nil || !strings.Contains(err.Error(), "max_step: from") {
		t.Errorf("got %v, want a guardrail in the way of the return to the gate's cap as well", err)
	}
	if _, err := c.Set(t.Context(), control.Change{Values: parameters.Values{"max_cost": "5"}, Force: true}); err != nil {
		t.Errorf("got %v, want no exception in the way", err)
	}
	if _, err := c.Except(t.Context(), of, 5, control.Change{Force: true}); err != nil {
		t.Error(err)
	}
	if _, err := c.Set(t.Context(), control.Change{Values: parameters.Values{"max_cost": "6", "cap": "7"}, Force: true}); err == nil ||
		!strings.Contains(err.Error(), "exceptions: \""+of.String()+"=5\": max_cost: 6: must be at most 5") {
		t.Errorf("got %v, want the exception named that stands in the way", err)
	}
	first, err := control.NewControl(c.rdb, "default", "provider")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Except(t.Context(), of, 5, control.Change{}); err == nil || !strings.Contains(err.Error(), "is for a limit with a key") {
		t.Errorf("got %v, want no exception to the first limit", err)
	}
	if _, err := first.Set(t.Context(), control.Change{Values: parameters.Values{"exceptions": of.String() + "=5"}}); err == nil || !strings.Contains(err.Error(), "is for a limit with a key") {
		t.Errorf("got %v, want no exception to the first limit", err)
	}
}

// Exceptions that return when an override ends are changed one by one too, and one that has ended
// is in no one's way.
func TestExceptionsReturnWithTheTermsOfAnOverride(t *testing.T) {
	t.Parallel()
	c := newGate(t)
	a, b := limit.HashOf("a"), limit.HashOf("b")
	if _, err := c.Except(t.Context(), a, 2, control.Change{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Undo(t.Context(), 1, control.Change{For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	s, err := c.Except(t.Context(), b, 3, control.Change{For: control.MinOverride})
	if err != nil {
		t.Fatal(err)
	}
	_, now := s.Exceptions.Find(a, s.Changed)
	if one, then := s.RevertTo.Exceptions.Find(a, s.Changed); now || !then || one.Cap != 2 {
		t.Errorf("got %q now and %q after the override, want the exception for a after it", s.Exceptions, s.RevertTo.Exceptions)
	}
	c.until(t, "the exception has ended", func() bool {
		at, err := c.Now(t.Context())
		return err == nil && s.For(b, at).Cap == 5
	})
	if s, err = c.Set(t.Context(), control.Change{Values: parameters.Values{"max_cost": "2"}, Force: true}); err != nil || strings.Contains(string(s.Exceptions), b.String()) {
		t.Errorf("got %+v, %v, want the one that has ended left out", s, err)
	}
}
