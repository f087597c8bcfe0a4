package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/fault"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// ErrUnknownLimit says that Redis holds no such limit: no node has begun to
// work with it in that namespace, or it was lost and no node has restored it yet.
var ErrUnknownLimit = errors.New("no such limit in Redis")

// ErrUnchanged says that a change would change nothing. No revision was made.
var ErrUnchanged = errors.New("nothing was changed: these settings are in force already")

// ErrBusy says that others kept changing the settings while we tried.
var ErrBusy = errors.New("others keep changing the settings")

// RevisionError is a change that was meant for other settings than those in
// force: another change was faster.
type RevisionError struct {
	Wanted int64
	Now    limit.Settings
}

func (e *RevisionError) Error() string {
	return fmt.Sprintf("revision %d was expected, but %d is in force (%s, by %s): nothing was changed", e.Wanted, e.Now.Revision, e.Now.Terms, e.Now.By)
}

// Control reads and changes the settings of a limit, for an operator's command. It
// reserves nothing.
type Control struct {
	rdb       redis.UniversalClient
	scripts   script.Scripts
	Keys      script.Keys
	namespace string
	name      string
}

// NewControl is for one limit of a namespace.
func NewControl(rdb redis.UniversalClient, namespace, name string) (*Control, error) {
	if err := errors.Join(limit.CheckName("namespace", namespace), limit.CheckName("name", name)); err != nil {
		return nil, err
	}
	return &Control{
		rdb: rdb, scripts: script.NewScripts(rdb, namespace, name, ""), Keys: script.KeysOf(namespace, name),
		namespace: namespace, name: name,
	}, nil
}

// Get reads the settings in force. It returns [ErrUnknownLimit] where there
// are none.
func (c *Control) Get(ctx context.Context) (limit.Settings, error) {
	text, err := c.rdb.HGet(ctx, c.Keys.Limit, "settings").Result()
	if errors.Is(err, redis.Nil) {
		return limit.Settings{}, c.unknown()
	}
	if err != nil {
		return limit.Settings{}, fmt.Errorf("read limit %q: %w", c.name, err)
	}
	s, err := limit.Unpack(text)
	if err != nil {
		return limit.Settings{}, fmt.Errorf("read limit %q: %w", c.name, err)
	}
	return s, nil
}

// read reads a state; empty: there is none.
func (c *Control) read(ctx context.Context, key string) (string, error) {
	state, err := c.rdb.Get(ctx, key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read limit %q: %w", c.name, err)
	}
	return state, nil
}

func (c *Control) unknown() error {
	return fmt.Errorf("limit %q in namespace %q: %w", c.name, c.namespace, ErrUnknownLimit)
}

// Set changes the settings and returns them as they are now in force. A change
// that can't be kept, that a guardrail refuses, or that was meant for another revision
// is refused, and nothing is written. A change that changes nothing is
// [ErrUnchanged], beside the settings in force. For [limit.Contract.Reaction] slots that
// were reserved before a change may violate it; none does later.
func (c *Control) Set(ctx context.Context, ch Change) (limit.Settings, error) {
	s, err := c.set(ctx, ch)
	if err != nil && !errors.Is(err, ErrUnknownLimit) && !errors.Is(err, ErrUnchanged) {
		err = fmt.Errorf("limit %q: %w", c.name, err)
	}
	return s, err
}

func (c *Control) set(ctx context.Context, ch Change) (limit.Settings, error) {
	if err := ch.validate(); err != nil {
		return limit.Settings{}, err
	}
	const tries = 5
	for range tries {
		s, err := c.Get(ctx)
		if err != nil {
			return limit.Settings{}, err
		}
		now, err := c.Now(ctx)
		if err != nil {
			return limit.Settings{}, err
		}
		to, over := s.Reverted(), !s.RevertAt.IsZero() && !now.Before(s.RevertAt) // and no node has polled since
		if !over {
			if to, err = c.changed(ctx, s, ch, now); err != nil {
				return to, err
			}
		}
		status, err := c.configure(ctx, s, to)
		if err != nil {
			return limit.Settings{}, err
		}
		switch {
		case status == script.ChangeUnknown:
			return limit.Settings{}, c.unknown()
		case status == script.ChangeDone && !over:
			return to, nil
		}
	}
	return limit.Settings{}, ErrBusy
}

// configure replaces the settings, and sends that again where Redis has not answered: it makes the change at most once, since it
// expects those from before. What remains unknown is [redisclient.ErrUnclear].
func (c *Control) configure(ctx context.Context, from, to limit.Settings) (script.ChangeStatus, error) {
	status, err := c.scripts.Configure(ctx, from, to)
	err = redisclient.Clear(err, func() bool {
		var again error
		if status, again = c.scripts.Configure(ctx, from, to); again == nil && status == script.ChangeDone {
			return true
		}
		now, unread := c.Get(ctx)
		made := unread == nil && now.Pack() == to.Pack() // the first was made, and changed what is expected
		if made {
			status = script.ChangeDone
		}
		return made
	})
	return status, err
}

// Preview returns the settings as they would be after a change, and changes nothing. Its errors are those of Set; beside that
// of a guardrail, the settings are those that it refuses.
func (c *Control) Preview(ctx context.Context, ch Change) (limit.Settings, error) {
	if err := ch.validate(); err != nil {
		return limit.Settings{}, err
	}
	s, err := c.Get(ctx)
	if err != nil {
		return s, err
	}
	now, err := c.Now(ctx)
	if err != nil {
		return s, err
	}
	return c.changed(ctx, s, ch, now)
}

// changed returns the settings as they are after the change, made at now.
func (c *Control) changed(ctx context.Context, s limit.Settings, ch Change, now time.Time) (limit.Settings, error) {
	spans := s.Spans()
	for i := range spans {
		spans[i].Exceptions = spans[i].Exceptions.Current(now) // what has ended is in no one's way
	}
	s = s.WithSpans(spans)
	if ch.IfRevision != 0 && ch.IfRevision != s.Revision {
		return s, &RevisionError{Wanted: ch.IfRevision, Now: s}
	}
	if err := ch.Values.Validate(s); err != nil {
		return s, err
	}
	to, err := ch.apply(s, now)
	if err != nil {
		return s, err
	}
	if s.Same(to) {
		return s, ErrUnchanged
	}
	return to, errors.Join(ch.check(s, to), c.hasModule(ctx, s, to))
}

// hasModule refuses an algorithm whose module the server lacks.
func (c *Control) hasModule(ctx context.Context, from, to limit.Settings) error {
	if to.Algorithm == from.Algorithm || to.Algorithm != limit.RedisCell {
		return nil
	}
	rdb, err := Holder(ctx, c.rdb, c.Keys.Limit)
	if err != nil {
		return err
	}
	var faults fault.List
	err = rdb.Eval(ctx, "return redis.call('CL.THROTTLE')", nil).Err()
	faults.Refuse(err != nil && strings.Contains(err.Error(), "nknown"), "algorithm", to.Algorithm, "needs the module redis-cell, which this Redis has not loaded")
	return faults.Err()
}

// InUseError says that a limit can't be deleted: nodes work with it.
type InUseError struct {
	Name  string
	Nodes int // that polled within the last seconds, or have a lease of the reserve
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("limit %q is used by %d nodes; nothing was deleted: stop them, or take the limit out of their configuration, and wait %s",
		e.Name, e.Nodes, missingAfter)
}

// Delete removes a limit's keys from Redis. It returns [ErrUnknownLimit] where
// there is no such limit, and [InUseError] while nodes use it. A limit of that name
// that begins again grants nothing until all calls under the old one have left its
// window.
func (c *Control) Delete(ctx context.Context) error {
	status, nodes, err := c.scripts.Delete(ctx, missingAfter)
	switch {
	case err != nil:
		return fmt.Errorf("delete limit %q: %w", c.name, err)
	case status == script.DeleteUnknown:
		return c.unknown()
	case status == script.DeleteInUse:
		return &InUseError{Name: c.name, Nodes: int(nodes)}
	}
	return nil
}
