package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/audit"
	"dispatcher/internal/fault"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// Entry is one change of a limit, as the history in Redis holds it: the settings before
// and after it. The latter say who made it, when and why. The end of an override is a
// change as well.
type Entry struct{ From, To limit.Settings }

// History returns the last n changes, the newest first. Redis keeps the last
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
	return Entry{From: from, To: to}, errors.Join(err, err2)
}

// Event is what became of a slowdown: the provider refused calls, and the fleet slowed down, stopped or
// went on; or an operator ended it.
type Event = audit.Event

// Events returns the last n events, the newest first. Redis keeps about a thousand.
func (c *Control) Events(ctx context.Context, n int) ([]Event, error) {
	events, err := audit.Read(ctx, c.rdb, c.Keys.Events, n)
	if err != nil {
		return nil, fmt.Errorf("read the events of limit %q: %w", c.name, err)
	}
	return events, nil
}

// Chosen reports whether the change was no operator's, but the fleet's choice of
// another lateness.
func (e Entry) Chosen() bool {
	return e.To.By == limit.Dispatcher && e.From.Auto && e.To.Auto && e.From.Lateness != e.To.Lateness && len(parameters.Differences(e.From, e.To)) == 0
}
