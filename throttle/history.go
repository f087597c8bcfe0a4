package throttle

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNotInTrail says that the trail of changes does not hold what is to be undone.
var ErrNotInTrail = errors.New("the trail does not hold it")

// Entry is one change of a limit, as the trail in Redis holds it. The end of an
// override is a change as well. Rails are in it as they were and as they became.
type Entry struct {
	Revision int64     // that the change made
	Changed  time.Time // when, by Redis's clock
	Until    time.Time // when an override that was on then was to end; zero: there was none
	By       string
	Why      string
	Undid    int64 // the revision that the change took back; 0: it was no undo
	From, To Terms

	RailsFrom, RailsTo Rails
}

// History returns the last n changes, the newest first. Redis keeps about a
// thousand.
func (c *Control) History(ctx context.Context, n int) ([]Entry, error) {
	if n < 1 {
		return nil, &FieldError{Field: "n", Value: n, Why: "must be at least 1"}
	}
	_, unknown := c.Get(ctx)
	if unknown != nil && !errors.Is(unknown, ErrUnknownLimit) {
		return nil, unknown
	}
	messages, err := c.rdb.XRevRangeN(ctx, c.keys.history, "+", "-", int64(n)).Result()
	if err != nil {
		return nil, fmt.Errorf("read the history of limit %q: %w", c.name, err)
	}
	if len(messages) == 0 {
		return nil, unknown
	}
	entries := make([]Entry, 0, len(messages))
	for _, m := range messages {
		e, err := decodeEntry(m)
		if err != nil {
			return nil, fmt.Errorf("read the history of limit %q: %w", c.name, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// decodeEntry reads what record in limit.lua wrote.
func decodeEntry(m redis.XMessage) (Entry, error) {
	side := func(field string) (Settings, error) {
		text, _ := m.Values[field].(string)
		s, err := unpack(text)
		if err != nil {
			return s, fmt.Errorf("%s of change %s: %w", field, m.ID, err)
		}
		return s, nil
	}
	from, err := side("from")
	to, err2 := side("to")
	return Entry{
		Revision: to.Revision, Changed: to.Changed, Until: to.Until, By: to.By, Why: to.Why, Undid: to.Undid, From: from.Terms, To: to.Terms,
		RailsFrom: from.Rails, RailsTo: to.Rails,
	}, errors.Join(err, err2)
}

// historyAll is more than the trail holds.
const historyAll = 2000

// Undo takes the last change back that was not taken back yet: each further Undo goes
// one change further back. With a revision it returns to the terms that
// it had, as a plain change with the rest of ch. It is meant for the settings
// that it reads: a change that comes between is a [RevisionError].
//
// Terms that were an override are not made to hold for good: that needs a For.
func (c *Control) Undo(ctx context.Context, to int64, ch Change) (Settings, error) {
	s, err := c.Get(ctx)
	if err != nil {
		return Settings{}, err
	}
	trail, err := c.History(ctx, historyAll)
	if err != nil {
		return Settings{}, err
	}
	if ch.IfRevision == 0 {
		ch.IfRevision = s.Revision
	}
	if to == 0 {
		err = ch.takeBack(s, trail)
	} else {
		err = ch.goBack(to, trail)
	}
	if err != nil {
		return Settings{}, fmt.Errorf("limit %q: %w; nothing was changed", c.name, err)
	}
	return c.Set(ctx, ch)
}

// takeBack fills in what the change that made s altered, as it was before. What
// it left alone stays, so that an override that was on already goes on.
func (ch *Change) takeBack(s Settings, trail []Entry) error {
	if len(trail) == 0 || trail[0].Revision != s.Revision || !trail[0].Changed.Equal(s.Changed) {
		return fmt.Errorf("undo of revision %d: %w", s.Revision, ErrNotInTrail)
	}
	trail = toUndo(trail)
	if len(trail) == 0 {
		return fmt.Errorf("undo: no operator has changed the limit, as far as the history goes: %w", ErrNotInTrail)
	}
	last := trail[0]
	if last.From == last.To && last.RailsFrom == last.RailsTo {
		return fmt.Errorf("undo of revision %d: it changed neither the contract nor the pause nor a rail", last.Revision)
	}
	if len(trail) > 1 && !last.Until.Equal(trail[1].Until) {
		if err := ch.mayReturnTo(trail[1]); err != nil {
			return err
		}
	}
	ch.restore(last.To, last.From)
	differs(&ch.MaxCap, last.RailsTo.MaxCap, last.RailsFrom.MaxCap)
	differs(&ch.MaxStep, last.RailsTo.MaxStep, last.RailsFrom.MaxStep)
	ch.because(fmt.Sprintf("undo of revision %d", last.Revision))
	ch.undid = last.Revision
	return nil
}

// toUndo is the rest of the trail, from the last change on that was not taken back
// yet. What the fleet chose is not an operator's to take back.
func toUndo(trail []Entry) []Entry {
	for before := int64(math.MaxInt64); len(trail) > 0; trail = trail[1:] {
		switch e := trail[0]; {
		case e.Revision >= before || e.Chosen():
		case e.Undid > 0:
			before = e.Undid
		default:
			return trail
		}
	}
	return nil
}

// goBack fills in all terms that a revision had.
func (ch *Change) goBack(to int64, trail []Entry) error {
	for _, e := range trail {
		if e.Revision == to {
			if err := ch.mayReturnTo(e); err != nil {
				return err
			}
			ch.restore(Terms{Paused: !e.To.Paused}, e.To)
			break
		}
		if e.Revision == to+1 { // what the file seeded has no entry of its own; others are found behind
			ch.restore(Terms{Paused: !e.From.Paused}, e.From)
		}
	}
	if ch.Cap == nil {
		return fmt.Errorf("return to revision %d: %w", to, ErrNotInTrail)
	}
	ch.because(fmt.Sprintf("undo: back to revision %d", to))
	return nil
}

// mayReturnTo refuses to make for good what was meant for a while.
func (ch *Change) mayReturnTo(e Entry) error {
	if e.Until.IsZero() || ch.For > 0 {
		return nil
	}
	return fmt.Errorf("revision %d (%s) was an override until %s: say for how long it is to hold (--for), or set its terms",
		e.Revision, e.To, e.Until.UTC().Format(time.RFC3339))
}

// restore makes a change of the terms in which now differs from before.
func (ch *Change) restore(now, before Terms) {
	differs(&ch.Algorithm, now.Algorithm, before.Algorithm)
	differs(&ch.Cap, now.Cap, before.Cap)
	differs(&ch.Window, now.Window, before.Window)
	differs(&ch.Burst, now.Burst, before.Burst)
	differs(&ch.Spread, now.Spread, before.Spread)
	ch.restoreGuard(now.Contract, before.Contract)
	differs(&ch.Horizon, now.Horizon, before.Horizon)
	differs(&ch.Paused, now.Paused, before.Paused)
}

// restoreGuard leaves a guard that was auto to the fleet.
func (ch *Change) restoreGuard(now, before Contract) {
	switch {
	case before.Auto && now.Auto:
	case before.Auto:
		ch.Auto, ch.Lateness = &before.Auto, &before.Lateness
	case now.Auto:
		ch.Guard, ch.Lateness = &before.Guard, &before.Lateness
	default:
		differs(&ch.Guard, now.Guard, before.Guard)
		differs(&ch.Lateness, now.Lateness, before.Lateness)
	}
}

// Chosen reports whether the change was no operator's, but the fleet's choice of
// another lateness.
func (e Entry) Chosen() bool {
	from, to := e.From, e.To
	from.Contract, to.Contract = from.stated(), to.stated()
	return e.By == Dispatcher && e.From.Auto && e.To.Auto && e.From.Lateness != e.To.Lateness && from == to
}

func differs[T comparable](field **T, now, before T) {
	if now != before {
		*field = &before
	}
}

func (ch *Change) because(why string) {
	if ch.Why == "" {
		ch.Why = why
	}
}
