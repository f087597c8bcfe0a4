package throttle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrUnknownLimit says that Redis holds no such limit: no node has begun to
// work with it in that namespace, or it was lost and no node has brought it
// back yet.
var ErrUnknownLimit = errors.New("no such limit in Redis")

// ErrUnchanged says that a change would change nothing. No revision was made.
var ErrUnchanged = errors.New("nothing was changed: these settings are in force already")

// errBusy says that others kept changing the settings while we tried.
var errBusy = errors.New("others keep changing the settings")

// Control reads and changes the settings of a limit: what an operator's
// command works with. It books nothing.
type Control struct {
	rdb       redis.UniversalClient
	scripts   scripts
	keys      limitKeys
	namespace string
	name      string
}

// NewControl is for one limit of a namespace.
func NewControl(rdb redis.UniversalClient, namespace, name string) (*Control, error) {
	if err := errors.Join(CheckName("namespace", namespace), CheckName("name", name)); err != nil {
		return nil, err
	}
	return &Control{
		rdb: rdb, scripts: newScripts(rdb, namespace, name, ""), keys: keysOf(namespace, name),
		namespace: namespace, name: name,
	}, nil
}

// Change is what is to become different; nil leaves as it is. A change is for
// good: it holds now, and goes on to hold when an override ends. With For it is
// an override.
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
	MaxStep  *int64

	For        time.Duration // after which the terms return by themselves; 0: for good
	IfRevision int64         // refuse where another one is in force; 0: whichever
	Force      bool          // pass the rails
	undid      int64         // the revision that the change takes back; 0: none
	By         string        // who asks for it, for people
	Why        string        // what for
}

// Bounds of a [Change].
const (
	MinOverride = time.Second
	MaxOverride = 31 * 24 * time.Hour
	maxWhy      = 200 // bytes
)

// Get reads the settings in force. It returns [ErrUnknownLimit] where there
// are none.
func (c *Control) Get(ctx context.Context) (Settings, error) {
	text, err := c.rdb.HGet(ctx, c.keys.limit, "settings").Result()
	if errors.Is(err, redis.Nil) {
		return Settings{}, c.unknown()
	}
	if err != nil {
		return Settings{}, fmt.Errorf("read limit %q: %w", c.name, err)
	}
	s, err := unpack(text)
	if err != nil {
		return Settings{}, fmt.Errorf("read limit %q: %w", c.name, err)
	}
	return s, nil
}

func (c *Control) unknown() error {
	return fmt.Errorf("limit %q in namespace %q: %w", c.name, c.namespace, ErrUnknownLimit)
}

// Set changes the settings and returns them as they are now in force. A change
// that can't be kept, that passes a rail, or that was meant for another revision
// is refused, and nothing is written. A change that changes nothing is
// [ErrUnchanged], beside the settings in force. A change may be violated by none but the slots
// that were booked before it, for [Contract.Reaction].
func (c *Control) Set(ctx context.Context, ch Change) (Settings, error) {
	s, err := c.set(ctx, ch)
	if err != nil && !errors.Is(err, ErrUnknownLimit) && !errors.Is(err, ErrUnchanged) {
		err = fmt.Errorf("limit %q: %w", c.name, err)
	}
	return s, err
}

func (c *Control) set(ctx context.Context, ch Change) (Settings, error) {
	if err := ch.validate(); err != nil {
		return Settings{}, err
	}
	const tries = 5
	for range tries {
		s, err := c.Get(ctx)
		if err != nil {
			return Settings{}, err
		}
		now, err := c.Now(ctx)
		if err != nil {
			return Settings{}, err
		}
		to, over := s.ended(), !s.Until.IsZero() && !now.Before(s.Until) // and no node has come by since
		if !over {
			if to, err = c.changed(ctx, s, ch, now); err != nil {
				return to, err
			}
		}
		status, err := c.scripts.runConfigure(ctx, s, to)
		if err != nil {
			return Settings{}, err
		}
		switch {
		case status == changeUnknown:
			return Settings{}, c.unknown()
		case status == changeDone && !over:
			return to, nil
		}
	}
	return Settings{}, errBusy
}

// changed returns the settings as they are after the change, made at now.
func (c *Control) changed(ctx context.Context, s Settings, ch Change, now time.Time) (Settings, error) {
	if ch.IfRevision != 0 && ch.IfRevision != s.Revision {
		return s, &RevisionError{Wanted: ch.IfRevision, Now: s}
	}
	if err := ch.guardFaults(s.Contract); err != nil {
		return s, err
	}
	to := ch.apply(s, now)
	if s.same(to) {
		return s, ErrUnchanged
	}
	return to, errors.Join(c.check(s, to, ch), c.has(ctx, s, to))
}

// has refuses an algorithm whose module the server lacks.
func (c *Control) has(ctx context.Context, from, to Settings) error {
	if to.Algorithm == from.Algorithm || to.Algorithm != redisCell().Name {
		return nil
	}
	rdb, err := holder(ctx, c.rdb, c.keys.limit)
	if err != nil {
		return err
	}
	if err := rdb.Eval(ctx, "return redis.call('CL.THROTTLE')", nil).Err(); err != nil && strings.Contains(err.Error(), "nknown") {
		return &FieldError{Field: "algorithm", Value: to.Algorithm, Why: "needs the module redis-cell, which this Redis has not loaded"}
	}
	return nil
}

// check refuses settings that can't be kept.
func (c *Control) check(from, to Settings, ch Change) error {
	if err := to.Terms.validate(); err != nil {
		return err
	}
	if to.Was != (Terms{}) {
		if err := to.Was.validate(); err != nil {
			return fmt.Errorf("when the override ends: %w", err)
		}
	}
	if from.MaxNodes > 0 && (to.Window != from.Window || to.Guard != from.Guard) {
		return &FieldError{Field: "window", Value: to.Window, Why: "can't change, nor can the guard, while nodes may hold shares of a reserve: " +
			"one that can't reach Redis would not hear of it; stop the fleet, change the file and delete the limit's keys"}
	}
	if err := ch.checkRails(to); err != nil || ch.Force {
		return err
	}
	if to.UsableShare() < from.UsableShare() { // what is in force already may have been forced
		if err := to.waste(); err != nil {
			return fmt.Errorf("%w; --force passes it", err)
		}
	}
	// The rails that were hold too: nobody passes one by moving it on the way.
	if err := from.pass(from.Terms, to.Terms); err != nil {
		return err
	}
	return to.pass(from.Terms, to.Terms)
}

func (ch Change) validate() error {
	switch {
	case ch.For != 0 && (ch.For < MinOverride || ch.For > MaxOverride):
		return &FieldError{Field: "for", Value: ch.For, Why: fmt.Sprintf("must be from %s to %s", MinOverride, MaxOverride)}
	case len(ch.Why) > maxWhy:
		return &FieldError{Field: "why", Value: len(ch.Why), Why: fmt.Sprintf("bytes are more than %d", maxWhy)}
	}
	return nil
}

// checkRails refuses rails that are none. Those that the change leaves alone may
// have been passed by force.
func (ch Change) checkRails(to Settings) error {
	var given Rails
	set(&given.MaxCap, ch.MaxCap)
	set(&given.MaxStep, ch.MaxStep)
	return errors.Join(given.validate(to.Contract)...)
}

// apply returns the settings that the change leads to at now.
func (ch Change) apply(s Settings, now time.Time) Settings {
	to := s.edited()
	to.By, to.Why, to.Undid = ch.By, ch.Why, ch.undid
	to.Revision, to.Changed = s.Revision+1, now
	if !now.After(s.Changed) {
		to.Changed = s.Changed.Add(time.Microsecond)
	}
	set(&to.MaxCap, ch.MaxCap)
	set(&to.MaxStep, ch.MaxStep)
	ch.applyTo(&to.Terms)
	on := !s.Until.IsZero()
	switch {
	case ch.For > 0:
		if !on { // else Was stays what it was before the first override
			to.Was = s.Terms
		}
		to.Until = to.Changed.Add(ch.For)
		return to
	case on:
		ch.applyTo(&to.Was)
		if to.Was != to.Terms {
			return to
		}
	}
	to.Was, to.Until = Terms{}, time.Time{}
	return to
}

// validate refuses terms that the algorithm can't keep.
func (t Terms) validate() error {
	_, err := Check(t.Algorithm, t.Contract, Rails{})
	return err
}

func (ch Change) applyTo(t *Terms) {
	set(&t.Algorithm, ch.Algorithm)
	set(&t.Cap, ch.Cap)
	set(&t.Window, ch.Window)
	set(&t.Burst, ch.Burst)
	ch.applyGuard(&t.Contract)
	set(&t.Horizon, ch.Horizon)
	set(&t.Paused, ch.Paused)
}

// applyGuard comes after the window, which bounds a lateness that is chosen. A
// guard that is stated leaves the lateness what is not the spread, where it was
// chosen before.
func (ch Change) applyGuard(c *Contract) {
	set(&c.Spread, ch.Spread)
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
			c.Spread = DefaultSpread
		}
		*c = c.WithLateness(c.Lateness)
	}
}

// guardFaults refuses a change of what the fleet chooses.
func (ch Change) guardFaults(c Contract) error {
	auto := c.Auto
	set(&auto, ch.Auto)
	switch {
	case ch.Guard != nil && ch.Auto != nil && *ch.Auto:
		return &FieldError{Field: "guard", Value: *ch.Guard, Why: "can't be auto as well"}
	case auto && ch.Auto == nil && ch.Guard == nil && ch.Lateness != nil:
		return &FieldError{Field: "lateness", Value: *ch.Lateness, Why: "is chosen by the fleet while the guard is auto; state the guard as well"}
	}
	return nil
}

func set[T any](field, to *T) {
	if to != nil {
		*field = *to
	}
}
