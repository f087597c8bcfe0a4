package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/fault"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// Except gives one value of a gate's key a cap of its own, for as long as the change says; cap
// 0 takes that away. The rest of ch is as for [Control.Set], which makes the change; the values
// in it are not used. The value's own cap is held to the guardrails of the gate.
//
// An exception ends by itself, beside an override of the limit, whose end it does not move.
func (c *Control) Except(ctx context.Context, of limit.Hash, units int64, ch Change) (limit.Settings, error) {
	if err := ch.validate(); err != nil {
		return limit.Settings{}, fmt.Errorf("limit %q: %w", c.name, err)
	}
	ch.value = &valueChange{of, units, ch.For}
	ch.Values, ch.For = nil, 0
	return c.Set(ctx, ch)
}

// valueChange gives one value of a gate's key a cap of its own.
type valueChange struct {
	of    limit.Hash
	units int64         // 0: it has none any more
	lasts time.Duration // 0: for good
}

// put changes the exceptions of settings, if the gate can keep them.
func (v valueChange) put(s *limit.Settings, now time.Time) error {
	var faults fault.List
	faults.Refuse(!s.Gate, "key", fault.Phrase("given"), "is for a limit with a key: change the first limit as a whole")
	faults.Refuse(v.units < 0, "cap", v.units, "must be at least 1")
	if err := faults.Err(); err != nil {
		return err
	}
	own := s.Terms
	own.Cap, own.Exceptions = cmp.Or(v.units, s.Cap), "" // exceptions in the way of the change are named by it
	if err := own.Validate(); err != nil {
		return err
	}
	if v.units == 0 {
		s.Exceptions = s.Exceptions.Without(v.of, now)
		return nil
	}
	one := limit.Exception{Of: v.of, Cap: v.units}
	if v.lasts > 0 {
		one.Until = now.Add(v.lasts).Truncate(time.Microsecond)
	}
	s.Exceptions = s.Exceptions.With(one, now)
	return nil
}

// Used is what Redis holds of one value of a gate's key.
type Used struct {
	State string    // of a quota, see [quota.Quota.Used]; empty: nothing is used
	Next  time.Time // of a gate that is none: when the next unit may go, about; zero: now

	// Blocked is until when the provider wants no job of the value. Its answer named the limit. A time
	// that is over, or zero: it is not blocked.
	Blocked time.Time
}

// Used reads what is used of a gate for one value. first names the first limit, whose epoch the
// states of gates belong to; beside it the gate has these terms.
func (c *Control) Used(ctx context.Context, of limit.Hash, terms limit.Terms, first string) (u Used, err error) {
	if terms.IsQuota() {
		u.State, err = c.read(ctx, c.Keys.Quota(c.name, terms.Quota, of))
		return u, err
	}
	key, err := c.gateKey(ctx, of, first)
	if err != nil {
		return u, err
	}
	text, err := c.read(ctx, key)
	if err != nil || text == "" {
		return u, err
	}
	state, err := script.ReadGateState(text)
	if err != nil {
		return u, fmt.Errorf("read limit %q: %w", c.name, err)
	}
	u.Next = limit.FromMicros(state.Slot).Add(time.Duration(state.Units) * terms.GateSpacing())
	if state.Until > 0 {
		u.Blocked = limit.FromMicros(state.Until)
		u.Next = clock.Later(u.Next, u.Blocked)
	}
	return u, nil
}

// Opening is from when on a gate grants units to any value, as the nodes' last call found it.
type Opening struct {
	At   time.Time // zero: no node has said so yet
	Lost time.Time // a quota with a key waits since Redis lost its counts, or may have; zero: it does not
}

// Opening reads that of a gate.
func (c *Control) Opening(ctx context.Context) (Opening, error) {
	text, err := c.rdb.HGet(ctx, c.Keys.Limit, "opens").Result()
	if errors.Is(err, redis.Nil) {
		return Opening{}, nil
	}
	var o script.Opening
	if err == nil {
		o, err = script.ReadOpening(text)
	}
	if err != nil {
		return Opening{}, fmt.Errorf("read limit %q: %w", c.name, err)
	}
	return Opening{At: limit.FromMicros(o.From), Lost: limit.FromMicros(o.Lost)}, nil
}

// gateKey is the key of a value's state.
func (c *Control) gateKey(ctx context.Context, of limit.Hash, first string) (string, error) {
	epoch, err := c.rdb.HGet(ctx, script.KeysOf(c.namespace, first).Limit, "epoch").Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read limit %q: %w", first, err)
	}
	return c.Keys.Gate(c.name, epoch, of), nil
}
