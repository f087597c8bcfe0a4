package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/throttle/feedback"
	"dispatcher/throttle/limit"
)

// Slowdown is what the provider's answers leave of the limit; zero: all of it.
func (c *Control) Slowdown(ctx context.Context) (limit.Slowdown, error) {
	text, err := c.rdb.HGet(ctx, c.Keys.Limit, "slowdown").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return limit.Slowdown{}, fmt.Errorf("read limit %q: %w", c.name, err)
	}
	s, err := limit.UnpackSlowdown(text)
	if err != nil {
		return s, fmt.Errorf("read limit %q: %w", c.name, err)
	}
	return s, nil
}

// ErrNotSlowed says that there is nothing to release: the provider's answers slow nothing down.
var ErrNotSlowed = errors.New("nothing was changed: the limit is neither blocked nor slowed down by what the provider answers")

// ReleaseValue ends the block of one value of a gate's key, or returns [ErrNotSlowed]. first names the first
// limit. Nodes that know of the block ask for such jobs again within some seconds. It returns when the block would
// have ended.
func (c *Control) ReleaseValue(ctx context.Context, of limit.Hash, first, by, why string) (until time.Time, err error) {
	if err := (Change{Why: why}).validate(); err != nil {
		return until, err
	}
	key, err := c.gateKey(ctx, of, first)
	if err != nil {
		return until, err
	}
	till, err := c.scripts.Release(ctx, key, released("the value with the hash "+of.String()+" was ", why), by)
	if err == nil && till == 0 {
		err = ErrNotSlowed
	}
	if err != nil {
		return until, fmt.Errorf("limit %q: %w", c.name, err)
	}
	return limit.FromMicros(till), nil
}

// released is the event of a release.
func released(what, why string) string {
	text := what + "released by hand"
	if why != "" {
		text += ": " + why
	}
	return text
}

// Release ends a block or a slowdown by hand: the operator's cap is in force at once. Where the provider goes on to refuse calls,
// the fleet slows down again. It returns what was ended, or [ErrNotSlowed].
func (c *Control) Release(ctx context.Context, by, why string) (limit.Slowdown, error) {
	if err := (Change{Why: why}).validate(); err != nil {
		return limit.Slowdown{}, err
	}
	if _, err := c.Get(ctx); err != nil {
		return limit.Slowdown{}, err
	}
	const attempts = 5
	for range attempts {
		old, err := c.Slowdown(ctx)
		if err != nil {
			return old, err
		}
		if old.Slowed == 0 {
			return old, fmt.Errorf("limit %q: %w", c.name, ErrNotSlowed)
		}
		now, err := feedback.Decision{Event: released("", why)}.Write(ctx, c.scripts, old.Number, by)
		if err != nil || now.IsZero() {
			return old, err
		}
	}
	return limit.Slowdown{}, fmt.Errorf("limit %q: %w", c.name, ErrBusy)
}
