package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/audit"
	"dispatcher/internal/fault"
	"dispatcher/internal/redisclient"
	"dispatcher/internal/timetext"
	"dispatcher/internal/wait"
	"dispatcher/lua"
)

// Errors of a [Store].
var (
	ErrUnknown = errors.New("there is no such rule: it has ended, or never was; dispatcher rules list shows them")
	ErrBusy    = errors.New("the rules were changed by others at the same time; nothing was changed: try again")
)

// Store keeps the rules of a fleet in Redis.
type Store struct {
	rdb       redis.UniversalClient
	namespace string
	script    *redis.Script
}

// NewStore makes a store. It asks nothing yet.
func NewStore(rdb redis.UniversalClient, namespace string) *Store {
	return &Store{rdb: rdb, namespace: namespace, script: redis.NewScript(lua.Rules())}
}

// Key is that of the rules in Redis, and the channel on which nodes are notified of others.
func Key(namespace string) string { return "dispatcher:{" + namespace + "}:rules" }

func (s *Store) key() string    { return Key(s.namespace) }
func (s *Store) events() string { return s.key() + ":events" }

// Read returns the rules that have not ended, and Redis's time. It leaves out those that can't be read.
func (s *Store) Read(ctx context.Context) (List, time.Time, error) {
	l, now, err := s.readAll(ctx)
	l.Rules = readable(l.Rules)
	return l, now, err
}

// readAll returns the rules that have not ended, and Redis's time.
func (s *Store) readAll(ctx context.Context) (List, time.Time, error) {
	l, now, _, err := s.run(ctx, -1, List{}, "", "")
	l.Rules = current(l.Rules, now)
	return l, now, err
}

// run reads the rules or, with a revision, replaces those of that revision. What has no revision gets a new one.
func (s *Store) run(ctx context.Context, revision int64, to List, event, by string) (l List, now time.Time, done bool, err error) {
	text, err := encode(to.Rules)
	if err != nil {
		return l, now, false, err
	}
	memory, err := json.Marshal(to.memory)
	if err != nil {
		return l, now, false, err
	}
	reply, err := s.script.Run(ctx, s.rdb, []string{s.key(), s.events()}, revision, text, s.key(), event, by, to.Revision, memory).Slice()
	if err != nil {
		return l, now, false, fmt.Errorf("rules: %w", err)
	}
	if len(reply) != 5 { //nolint:mnd // as the script says
		return l, now, false, fmt.Errorf("rules: a reply of %d parts", len(reply))
	}
	at, _ := reply[0].(int64)
	l.Revision, _ = reply[1].(int64)
	list, _ := reply[2].(string)
	made, _ := reply[3].(int64)
	beside, _ := reply[4].(string)
	l.decode(list, beside)
	return l, time.UnixMicro(at), made == 1, nil
}

// tries is how often a change is made again where others make one at the same time.
const tries = 5

// Where Redis has no list, it has lost it, or no node has run yet. A change waits so long for the nodes that know it: they put it
// back. Otherwise the new list, being newer, would take the place of theirs.
const (
	putBackWithin = pollEvery + callTimeout
	putBackCheck  = 100 * time.Millisecond
)

// beforeChange reads the rules that a change is made from.
func (s *Store) beforeChange(ctx context.Context) (l List, now time.Time, err error) {
	for until := time.Now().Add(putBackWithin); ; {
		l, now, err = s.readAll(ctx)
		if err != nil || l.Revision != none || time.Now().After(until) {
			return l, now, err
		}
		wait.For(ctx, putBackCheck)
	}
}

// begin writes down that there are no rules, so that a missing list is a lost one.
func (s *Store) begin(ctx context.Context) error {
	_, _, _, err := s.run(ctx, none, List{Revision: first}, "", "")
	return err
}

// change replaces the rules by those that make returns, with what is written down of it.
func (s *Store) change(ctx context.Context, by string, make func(List, time.Time) (List, string, error)) (List, error) {
	for range tries {
		before, now, err := s.beforeChange(ctx)
		if err != nil {
			return List{}, err
		}
		to, event, err := make(before, now)
		if err != nil {
			return List{}, err
		}
		after, done, err := s.replace(ctx, before.Revision, to, event, by)
		if err != nil || done {
			return after, err
		}
	}
	return List{}, ErrBusy
}

// replace replaces the rules of a revision, and sends that again where Redis has not answered: it makes the change at most once,
// since it expects the revision from before. What remains unknown is [redisclient.ErrUnclear].
func (s *Store) replace(ctx context.Context, revision int64, to List, event, by string) (after List, done bool, err error) {
	to.Revision = 0 // a new one
	after, _, done, err = s.run(ctx, revision, to, event, by)
	err = redisclient.Clear(err, func() bool {
		var again error
		after, _, done, again = s.run(ctx, revision, to, event, by)
		done = again == nil && (done || after.sameRules(to)) // the first was made, and changed what is expected
		return done
	})
	return after, done, err
}

// putBack replaces older rules, or none, by newer ones that Redis has lost, and is true where nobody else was faster.
func (s *Store) putBack(ctx context.Context, older int64, newer List) (done bool, err error) {
	ids := make([]string, len(newer.Rules))
	for i, r := range newer.Rules {
		ids[i] = r.ID
	}
	event := "put back, since Redis had lost it: " + cmp.Or(strings.Join(ids, ", "), "that there is no rule")
	_, _, done, err = s.run(ctx, older, newer, event, "a node")
	return done, err
}

// Add makes a rule. Its id is given to no other rule later, also not after this one has ended. With lasts above 0, it ends after that time by Redis's clock. It returns the rule, and the revision from
// which on it is in force.
func (s *Store) Add(ctx context.Context, r Rule, lasts time.Duration) (made Rule, revision int64, err error) {
	l, err := s.change(ctx, r.By, func(to List, now time.Time) (List, string, error) {
		if lasts > 0 {
			r.Until = now.Add(lasts).Truncate(time.Millisecond)
		}
		if err := r.Validate(now); err != nil {
			return to, "", err
		}
		if n := len(readable(to.Rules)); n >= MostRules {
			return to, "", fault.New("rules", n, "there are as many as there may be; end one of them")
		}
		to.memory.Highest++
		r.Made, r.ID = now, strconv.Itoa(to.memory.Highest)
		made = r
		to.Rules = append(to.Rules, r)
		return to, fmt.Sprintf("%s %s when %s until %s%s", r.ID, r.Kind, r.When, timetext.Stamp(r.Until), audit.Because(r.Why)), nil
	})
	return made, l.Revision, err
}

// End ends a rule before its time. It returns [ErrUnknown] where there is none of that id.
func (s *Store) End(ctx context.Context, id, by, why string) (ended Rule, revision int64, err error) {
	if err := audit.CheckWhy(why); err != nil {
		return ended, 0, err
	}
	l, err := s.change(ctx, by, func(to List, _ time.Time) (List, string, error) {
		at := slices.IndexFunc(to.Rules, func(r Rule) bool { return r.ID == id })
		if at < 0 {
			return to, "", ErrUnknown
		}
		ended = to.Rules[at]
		to.Rules = slices.Delete(to.Rules, at, at+1)
		return to, fmt.Sprintf("%s ended%s", id, audit.Because(why)), nil
	})
	return ended, l.Revision, err
}

// Events are the last n changes, the newest first.
func (s *Store) Events(ctx context.Context, n int) ([]audit.Event, error) {
	all, err := audit.Read(ctx, s.rdb, s.events(), n)
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	return all, nil
}
