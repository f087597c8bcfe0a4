package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/fault"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// Except gives one value of a gate's key a cap of its own, for as long as the change says; cap
// 0 takes that away. The rest of ch is as for [Control.Set], which makes the change; the values
// in it are not used. The value's own cap is held to the guardrails of the gate.
//
// An exception ends by itself, beside an override of the limit, whose end it does not move.
func (c *Control) Except(ctx context.Context, of limit.Hash, units int64, ch Change) (limit.Settings, error) {
	const tries = 5
	whichever := ch.IfRevision == 0
	for range tries {
		one, err := c.except(ctx, of, units, ch)
		switch {
		case errors.Is(err, ErrUnknownLimit):
			return limit.Settings{}, err
		case err != nil:
			return limit.Settings{}, fmt.Errorf("limit %q: %w", c.name, err)
		}
		s, err := c.Set(ctx, one)
		if faster := (*RevisionError)(nil); whichever && errors.As(err, &faster) {
			continue
		}
		return s, err
	}
	return limit.Settings{}, fmt.Errorf("limit %q: %w", c.name, errBusy)
}

// except is the change of all exceptions that changes one. It is meant for the settings that it
// reads.
func (c *Control) except(ctx context.Context, of limit.Hash, units int64, ch Change) (Change, error) {
	s, err := c.Get(ctx)
	if err != nil {
		return ch, err
	}
	now, err := c.Now(ctx)
	if err != nil {
		return ch, err
	}
	var faults fault.List
	faults.Refuse(!s.Gate, "key", fault.Phrase("given"), "is for a limit with a key: change the first limit as a whole")
	faults.Refuse(units < 0, "cap", units, "must be at least 1")
	if err := errors.Join(faults.Err(), ch.validate()); err != nil {
		return ch, err
	}
	if ch.IfRevision == 0 {
		ch.IfRevision = s.Revision
	}
	one := limit.Exception{Of: of, Cap: units}
	if ch.For > 0 {
		one.Until = now.Add(ch.For).Truncate(time.Microsecond)
	}
	ch.For = 0
	ch.Values, ch.except = nil, func(e limit.Exceptions) limit.Exceptions {
		if units == 0 {
			return e.Without(of, now)
		}
		return e.With(one, now)
	}
	to := s.Terms
	to.Cap, to.Exceptions = cmp.Or(units, s.Cap), "" // exceptions in the way of the change are named by it
	return ch, to.Validate()
}

// Used is what Redis holds of one value of a gate's key.
type Used struct {
	State string    // of a quota, see [limit.Quota.Used]; empty: nothing is used
	Next  time.Time // of a gate that is none: when the next unit may go, about; zero: now
}

// Used reads what is used of a gate for one value. first names the first limit, whose epoch the
// states of gates belong to; beside it the gate has these terms.
func (c *Control) Used(ctx context.Context, of limit.Hash, terms limit.Terms, first string) (u Used, err error) {
	if terms.IsQuota() {
		u.State, err = c.read(ctx, c.Keys.Quota(c.name, terms.Quota, of))
		return u, err
	}
	epoch, err := c.rdb.HGet(ctx, script.KeysOf(c.namespace, first).Limit, "epoch").Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return u, fmt.Errorf("read limit %q: %w", first, err)
	}
	state, err := c.read(ctx, c.Keys.Gate(c.name, epoch, of))
	if err != nil || state == "" {
		return u, err
	}
	var slot, units int64
	if _, err := fmt.Sscan(state, &slot, &units); err != nil {
		return u, fmt.Errorf("read limit %q: a state of %.40q: %w", c.name, state, err)
	}
	u.Next = limit.FromMicros(slot).Add(time.Duration(units) * terms.GateSpacing())
	return u, nil
}
