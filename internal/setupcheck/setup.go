package setupcheck

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/throttle"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// setup is what the checks look at.
type setup struct {
	Options

	server    redis.Cmdable // that holds the namespace
	denied    bool          // the account lacks a right
	claim     string        // of the turn to check what concerns the fleet
	others    bool          // another node has the turn
	contract  limit.Contract
	algorithm string // empty: the default one
	nodes     int    // that Redis knows
	trip      time.Duration
	offset    time.Duration // of Redis's clock, to this host's
}

// samples is how often Redis's clock is read. The shortest way says most.
const samples = 5

// ask connects to Redis, and reads the settings in force and the nodes. Without a right to do so the settings
// of the file are taken.
func (s *setup) ask(ctx context.Context) (err error) {
	first := s.Config.Limits[0].Name
	operator, err := control.NewControl(s.Redis, s.Config.Redis.Namespace, first)
	if err != nil {
		return err
	}
	if err := s.Redis.Ping(ctx).Err(); err != nil && !isDenied(err) {
		return err
	}
	if s.server, err = control.Holder(ctx, s.Redis, operator.Keys.Limit); err != nil {
		return err
	}
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	switch now, err := operator.Get(ctx); {
	case err == nil:
		s.contract, s.algorithm = now.Contract, now.Algorithm
	case !errors.Is(err, control.ErrUnknownLimit) && !isDenied(err):
		return err
	}
	if there, err := operator.Presence(ctx); err == nil {
		s.nodes = len(there.Nodes)
	} else if !isDenied(err) {
		return err
	}
	return nil
}

// turn is how long a node checks for the fleet.
const turn = time.Minute

// takeTurn finds out whether another node checks what concerns the fleet. An account that may not do so checks it itself.
func (s *setup) takeTurn(ctx context.Context) error {
	if s.Fleet == "" {
		return nil
	}
	key := s.key("turn:" + s.Fleet)
	taken, err := s.server.SetNX(ctx, key, s.claim, turn).Result()
	if err == nil && !taken { // unless by a command of this one whose reply was lost
		var owner string
		owner, err = s.server.Get(ctx, key).Result()
		s.others = err == nil && owner != s.claim
	}
	if err != nil && !isDenied(err) && !errors.Is(err, redis.Nil) {
		return err
	}
	return nil
}

// key is a key of the check, of a kind.
func (s *setup) key(kind string) string {
	return "dispatcher:{" + s.Config.Redis.Namespace + "}:check:" + kind
}

// read reads Redis's clock. Its own error is that of the first reading that failed.
func (s *setup) read(ctx context.Context) error {
	if s.trip > 0 {
		return nil
	}
	for range samples {
		host, began := s.Now(), time.Now()
		there, err := s.server.Time(ctx).Result()
		if err != nil {
			return fmt.Errorf("read redis's clock: %w", err)
		}
		if trip := max(1, time.Since(began)); s.trip == 0 || trip < s.trip {
			s.trip, s.offset = trip, there.Sub(host.Add(trip/2))
		}
	}
	return nil
}

// info is what the server says of itself; nil: it can't.
func (s *setup) info(ctx context.Context) (fields map[string]string, err error) {
	if s.Identity == throttle.IdentityNone {
		return nil, nil
	}
	text, err := s.server.Info(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("ask redis for INFO: %w", err)
	}
	fields = make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

func number(fields map[string]string, name string) int64 {
	n, _ := strconv.ParseInt(fields[name], 10, 64) // a server without the field has none of it
	return n
}
