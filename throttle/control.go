package throttle

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrUnknownLimit says that Redis holds no such limit: no node has begun to
// work with it in that namespace, or it was lost and no node has brought it
// back yet.
var ErrUnknownLimit = errors.New("no such limit in Redis")

// errBusy says that others kept changing the settings while we tried.
var errBusy = errors.New("others keep changing the settings")

// Control reads and changes the settings of a limit: what an operator's
// command works with. It books nothing.
type Control struct {
	rdb       redis.UniversalClient
	scripts   scripts
	namespace string
	name      string
}

// NewControl is for one limit of a namespace.
func NewControl(rdb redis.UniversalClient, namespace, name string) (*Control, error) {
	if err := errors.Join(CheckName("namespace", namespace), CheckName("name", name)); err != nil {
		return nil, err
	}
	return &Control{rdb: rdb, scripts: newScripts(rdb, namespace, name, ""), namespace: namespace, name: name}, nil
}

// Change is what is to become different; nil leaves as it is.
type Change struct {
	Cap      *int64
	Window   *time.Duration
	Burst    *int64
	Guard    *time.Duration
	Lateness *time.Duration
	Horizon  *time.Duration
	Paused   *bool
	By       string // who asks for it, for people
}

// Get reads the settings in force. It returns [ErrUnknownLimit] where there
// are none.
func (c *Control) Get(ctx context.Context) (Settings, error) {
	key := limitKey(c.namespace, c.name)
	v, err := c.rdb.HMGet(ctx, key, "changed", "revision", "cap", "window", "burst", "guard", "lateness", "horizon", "paused", "by").Result()
	if err != nil {
		return Settings{}, fmt.Errorf("read limit %q: %w", c.name, err)
	}
	var n [9]int64
	for i := range n {
		text, _ := v[i].(string)
		if n[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return Settings{}, fmt.Errorf("limit %q in namespace %q: %w", c.name, c.namespace, ErrUnknownLimit)
		}
	}
	by, _ := v[9].(string)
	return Settings{
		Contract: Contract{
			Cap: n[2], Window: duration(n[3]), Burst: n[4],
			Guard: duration(n[5]), Lateness: duration(n[6]), Horizon: duration(n[7]),
		},
		Changed: fromMicros(n[0]), Revision: n[1], Paused: n[8] == 1, By: by,
	}, nil
}

// Set changes the settings and returns them as they are now in force. A change
// that can't be kept is refused and nothing is written. It may be violated by
// none but the slots that were booked before it, for [Contract.Reaction].
func (c *Control) Set(ctx context.Context, ch Change) (Settings, error) {
	const tries = 5
	for range tries {
		s, err := c.Get(ctx)
		if err != nil {
			return Settings{}, err
		}
		to := ch.apply(s)
		if err := to.Validate(); err != nil {
			return Settings{}, fmt.Errorf("limit %q: %w", c.name, err)
		}
		done, err := c.scripts.runConfigure(ctx, s.Changed, to)
		if err != nil {
			return Settings{}, fmt.Errorf("limit %q: %w", c.name, err)
		}
		switch done.status {
		case changeDone:
			to.Changed, to.Revision = done.changed, done.revision
			return to, nil
		case changeUnknown:
			return Settings{}, fmt.Errorf("limit %q in namespace %q: %w", c.name, c.namespace, ErrUnknownLimit)
		}
	}
	return Settings{}, fmt.Errorf("limit %q: %w", c.name, errBusy)
}

// Pause stops the limit: no slot is given until it is resumed.
func (c *Control) Pause(ctx context.Context, by string) (Settings, error) {
	paused := true
	return c.Set(ctx, Change{Paused: &paused, By: by})
}

// Resume ends a pause. The bucket starts empty.
func (c *Control) Resume(ctx context.Context, by string) (Settings, error) {
	paused := false
	return c.Set(ctx, Change{Paused: &paused, By: by})
}

func (ch Change) apply(s Settings) Settings {
	set(&s.Cap, ch.Cap)
	set(&s.Window, ch.Window)
	set(&s.Burst, ch.Burst)
	set(&s.Guard, ch.Guard)
	set(&s.Lateness, ch.Lateness)
	set(&s.Horizon, ch.Horizon)
	set(&s.Paused, ch.Paused)
	s.By = ch.By
	return s
}

func set[T any](field, to *T) {
	if to != nil {
		*field = *to
	}
}
