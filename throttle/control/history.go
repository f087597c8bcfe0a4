package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/fault"
	"dispatcher/throttle/limit"
)

// Entry is one change of a limit, as the history in Redis holds it. The end of an
// override is a change as well. Guardrails are in it as they were and as they became.
type Entry struct {
	Revision int64     // that the change made
	Changed  time.Time // when, by Redis's clock
	RevertAt time.Time // when an override that was on then was to end; zero: there was none
	By       string
	Why      string
	Undid    int64 // the revision that the change took back; 0: it was no undo
	From, To limit.Terms

	GuardrailsFrom, GuardrailsTo limit.Guardrails
}

// History returns the last n changes, the newest first. Redis keeps about a
// thousand.
func (c *Control) History(ctx context.Context, n int) ([]Entry, error) {
	if n < 1 {
		return nil, &fault.Error{Field: "n", Value: n, Remedy: "must be at least 1"}
	}
	_, unknown := c.Get(ctx)
	if unknown != nil && !errors.Is(unknown, ErrUnknownLimit) {
		return nil, unknown
	}
	messages, err := c.rdb.XRevRangeN(ctx, c.Keys.History, "+", "-", int64(n)).Result()
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

// decodeEntry reads an entry that limit.lua recorded.
func decodeEntry(m redis.XMessage) (Entry, error) {
	side := func(field string) (limit.Settings, error) {
		text, _ := m.Values[field].(string)
		s, err := limit.Unpack(text)
		if err != nil {
			return s, fmt.Errorf("%s of change %s: %w", field, m.ID, err)
		}
		return s, nil
	}
	from, err := side("from")
	to, err2 := side("to")
	return Entry{
		Revision: to.Revision, Changed: to.Changed, RevertAt: to.RevertAt, By: to.By, Why: to.Why, Undid: to.Undid, From: from.Terms, To: to.Terms,
		GuardrailsFrom: from.Guardrails, GuardrailsTo: to.Guardrails,
	}, errors.Join(err, err2)
}

// Chosen reports whether the change was no operator's, but the fleet's choice of
// another lateness.
func (e Entry) Chosen() bool {
	from, to := e.From, e.To
	from.Contract, to.Contract = from.Stated(), to.Stated()
	return e.By == limit.Dispatcher && e.From.Auto && e.To.Auto && e.From.Lateness != e.To.Lateness && from == to
}
