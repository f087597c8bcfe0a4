package limits

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"dispatcher/configs"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// Reader reads the limits of a fleet. Its copies share what it remembers.
type Reader struct {
	Config configs.Config // which limits the fleet has, as its file says
	Redis  redis.UniversalClient

	choices *choices
}

// NewReader makes a reader. It connects to nothing.
func NewReader(cfg configs.Config, rdb redis.UniversalClient) Reader {
	return Reader{Config: cfg, Redis: rdb, choices: &choices{}}
}

// Control is what reads and changes one limit.
func (r Reader) Control(name string) (*control.Control, error) {
	return control.NewControl(r.Redis, r.Config.Redis.Namespace, name)
}

// First is the name of the first limit.
func (r Reader) First() string { return r.Config.Limits[0].Name }

// Read is one limit as it is in force. of is the value of its key that the document is about as well; nil: none. It
// returns [control.ErrUnknownLimit] where Redis has no such limit.
func (r Reader) Read(ctx context.Context, name string, of *limit.Hash) (*Document, error) {
	operator, err := r.Control(name)
	if err != nil {
		return nil, err
	}
	now, err := operator.Get(ctx)
	if err != nil {
		return nil, err
	}
	return r.Describe(ctx, operator, name, of, now)
}

// List are the limits that Redis holds in the namespace, by name.
func (r Reader) List(ctx context.Context) ([]Entry, error) {
	names, err := control.Limits(ctx, r.Redis, r.Config.Redis.Namespace)
	if err != nil {
		return nil, err
	}
	all := make([]Entry, 0, len(names))
	for _, name := range names {
		operator, err := r.Control(name)
		if err != nil {
			return nil, err
		}
		now, err := operator.Get(ctx)
		if errors.Is(err, control.ErrUnknownLimit) {
			continue // it is being deleted
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Entry{Name: name, Settings: now, Counts: CountsOf(r.Config, name)})
	}
	return all, nil
}

// History are the last n changes of a limit and events together, the newest first.
func History(ctx context.Context, operator *control.Control, n int) ([]Line, error) {
	entries, err := operator.History(ctx, n)
	if err != nil {
		return nil, err
	}
	events, err := operator.Events(ctx, n)
	if err != nil {
		return nil, err
	}
	return merged(entries, events, n), nil
}

// Changes are the last n changes of a limit, the newest first.
func Changes(ctx context.Context, operator *control.Control, n int) ([]Line, error) {
	entries, err := operator.History(ctx, n)
	return merged(entries, nil, n), err
}

// ErrWhichValue says that a limit has a key, and that no value of it was named.
var ErrWhichValue = errors.New("the limit has a key: name the value; nothing was changed")

// Release ends what the provider's answers hold up: of the first limit its block or slowdown, of a gate the block of one value
// of its key, or of all jobs where it has none. It returns [control.ErrNotSlowed] where nothing is held up.
func (r Reader) Release(ctx context.Context, name string, of *limit.Hash, by, why string) error {
	operator, err := r.Control(name)
	if err != nil {
		return err
	}
	now, err := operator.Get(ctx)
	if err != nil {
		return err
	}
	if !now.Gate {
		_, err := operator.Release(ctx, by, why)
		return err
	}
	if of == nil {
		if CountsOf(r.Config, name).Key != "" {
			return ErrWhichValue
		}
		whole := limit.HashOf("")
		of = &whole
	}
	_, err = operator.ReleaseValue(ctx, *of, r.First(), by, why)
	return err
}
