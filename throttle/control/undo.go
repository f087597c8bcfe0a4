package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// ErrNotInHistory says that the history does not hold the change that is to be undone.
var ErrNotInHistory = errors.New("the history does not hold it")

// UndoError says why a change can't be taken back. Nothing was changed.
type UndoError struct {
	Name string
	Err  error
}

func (e *UndoError) Error() string {
	return fmt.Sprintf("limit %q: %v; nothing was changed", e.Name, e.Err)
}

// Unwrap is the reason.
func (e *UndoError) Unwrap() error { return e.Err }

// historyAll is more than the history holds.
const historyAll = 2000

// Undo takes the last change back that was not taken back yet: each further Undo goes
// one change further back. With a revision it returns to the terms that
// it had, as a plain change with the rest of ch. It is meant for the settings
// that it reads, or for those of [Change.IfRevision]: a change that comes between is a [RevisionError].
//
// Terms that were an override are not made to hold for good: that needs a For. What can't be taken back is an
// [UndoError].
func (c *Control) Undo(ctx context.Context, to int64, ch Change) (limit.Settings, error) {
	s, err := c.Get(ctx)
	if err != nil {
		return limit.Settings{}, err
	}
	ch.IfRevision = cmp.Or(ch.IfRevision, s.Revision)
	if ch.IfRevision != s.Revision { // the last change is another one now
		return s, fmt.Errorf("limit %q: %w", c.name, &RevisionError{Wanted: ch.IfRevision, Now: s})
	}
	entries, err := c.History(ctx, historyAll)
	if err != nil {
		return limit.Settings{}, err
	}
	if to == 0 {
		err = ch.takeBack(s, entries)
	} else {
		err = ch.goBack(to, entries)
	}
	if err != nil {
		return limit.Settings{}, &UndoError{c.name, err}
	}
	return c.Set(ctx, ch)
}

// takeBack fills in the settings that the change behind s altered, as they were before.
// The others stay, so that an override that was on already goes on.
func (ch *Change) takeBack(s limit.Settings, entries []Entry) error {
	if len(entries) == 0 || entries[0].To.Revision != s.Revision || !entries[0].To.Changed.Equal(s.Changed) {
		return fmt.Errorf("undo of revision %d: %w", s.Revision, ErrNotInHistory)
	}
	entries = toUndo(entries)
	if len(entries) == 0 {
		return fmt.Errorf("undo: no operator has changed the limit, as far as the history goes: %w", ErrNotInHistory)
	}
	last := entries[0]
	changed := parameters.Differences(last.From, last.To)
	if len(changed) == 0 {
		return fmt.Errorf("undo of revision %d: it changed neither the contract nor the pause nor a guardrail", last.To.Revision)
	}
	if err := ch.mayReturnTo(last.From, changed); err != nil {
		return err
	}
	ch.Values = parameters.Restore(last.From, changed)
	ch.Why = cmp.Or(ch.Why, fmt.Sprintf("undo of revision %d", last.To.Revision))
	ch.undid = last.To.Revision
	return nil
}

// toUndo is the rest of the entries, from the last change on that was not taken back
// yet. A choice of the fleet is not an operator's to take back.
func toUndo(entries []Entry) []Entry {
	for before := int64(math.MaxInt64); len(entries) > 0; entries = entries[1:] {
		switch e := entries[0]; {
		case e.To.Revision >= before || e.Chosen():
		case e.To.Undid > 0:
			before = e.To.Undid
		default:
			return entries
		}
	}
	return nil
}

// goBack fills in all terms that a revision had.
func (ch *Change) goBack(to int64, entries []Entry) error {
	terms := slices.DeleteFunc(slices.Clone(parameters.All), func(p parameters.Parameter) bool { return p.Kind == parameters.Guardrail })
	back := slices.IndexFunc(entries, func(e Entry) bool { return e.To.Revision == to })
	var then limit.Settings
	switch next := slices.IndexFunc(entries, func(e Entry) bool { return e.To.Revision == to+1 }); {
	case back >= 0:
		then = entries[back].To
	case next >= 0: // the seeded revision has no entry of its own, nor has the oldest one that is remembered
		then = entries[next].From
	default:
		return fmt.Errorf("return to revision %d: %w", to, ErrNotInHistory)
	}
	if err := ch.mayReturnTo(then, terms); err != nil {
		return err
	}
	ch.Values = parameters.Restore(then, terms)
	ch.Why = cmp.Or(ch.Why, fmt.Sprintf("undo: back to revision %d", to))
	return nil
}

// mayReturnTo refuses to make values hold for good that were meant for a while.
func (ch *Change) mayReturnTo(s limit.Settings, values []parameters.Parameter) error {
	spans := s.Spans()
	usual := limit.Settings{Terms: spans[len(spans)-1].Terms, Guardrails: s.Guardrails}
	named := func(p parameters.Parameter) bool {
		return slices.ContainsFunc(values, func(v parameters.Parameter) bool { return v.Name == p.Name })
	}
	if ch.For > 0 || !slices.ContainsFunc(parameters.Differences(s, usual), named) {
		return nil
	}
	return fmt.Errorf("revision %d (%s) was an override until %s: say for how long it is to hold (--for), or set its terms",
		s.Revision, s.Terms, s.RevertAt.UTC().Format(time.RFC3339))
}
