package redrive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/audit"
	"dispatcher/internal/fault"
	"dispatcher/lua"
)

// Errors of a [Store] and of a [Service].
var (
	ErrUnknown = errors.New("there is no such redrive: the last 50 are kept, and GET /api/v1/redrives lists them")
	ErrOver    = errors.New("the redrive is over")
	ErrBusy    = errors.New("other redrives were started at the same time; nothing was started: try again")
	ErrEnds    = errors.New("this node ends; nothing was started: ask another node")
)

// RunningError says that another run is in the way. Nothing was started.
type RunningError struct{ Run Run }

func (e *RunningError) Error() string {
	if e.Run.ID == "" {
		return "another redrive is just being started on this node; nothing was started: try again"
	}
	return fmt.Sprintf("redrive %s of topic %s is running on node %s; nothing was started: wait for its end, or stop it", e.Run.ID, e.Run.Topic, e.Run.Node)
}

// Store keeps the runs of a fleet in Redis.
type Store struct {
	rdb    redis.UniversalClient
	key    string
	script *redis.Script
}

// NewStore makes a store. It asks nothing yet.
func NewStore(rdb redis.UniversalClient, namespace string) *Store {
	return &Store{rdb: rdb, key: "dispatcher:{" + namespace + "}:redrives", script: redis.NewScript(lua.Redrive())}
}

func (s *Store) events() string { return s.key + ":events" }

// change is what the script writes. Entry is the run; stop is a request to stop it.
type change struct {
	revision  string
	id        string
	run, stop any
	event, by string
	removed   []string
}

const (
	readOnly = "-1"
	anyTime  = "*"
)

// stopRequest is an operator's request to stop a run.
type stopRequest struct {
	By  string `json:"by"`
	Why string `json:"why,omitempty"`
}

// reply is what the script answers.
type reply struct {
	now      time.Time // Redis's
	revision int64
	written  bool
	stop     *stopRequest // nil: nobody asked to stop
	fields   map[string]string
}

func (s *Store) call(ctx context.Context, c change) (r reply, err error) {
	var texts [2]string
	for i, v := range []any{c.run, c.stop} {
		if v == nil {
			continue
		}
		text, err := json.Marshal(v)
		if err != nil {
			return r, err
		}
		texts[i] = string(text)
	}
	args := []any{c.revision, c.id, texts[0], texts[1], c.event, c.by}
	for _, id := range c.removed {
		args = append(args, id)
	}
	parts, err := s.script.Run(ctx, s.rdb, []string{s.key, s.events()}, args...).Slice()
	if err != nil {
		return r, fmt.Errorf("redrives: %w", err)
	}
	if len(parts) != 5 { //nolint:mnd // as the script says
		return r, fmt.Errorf("redrives: a reply of %d parts", len(parts))
	}
	at, _ := parts[0].(int64)
	r.now = time.UnixMicro(at)
	r.revision, _ = parts[1].(int64)
	written, _ := parts[2].(int64)
	r.written = written == 1
	if text, _ := parts[3].(string); text != "" {
		r.stop = &stopRequest{}
		if err := json.Unmarshal([]byte(text), r.stop); err != nil {
			return r, fmt.Errorf("redrives: a request to stop in Redis: %w", err)
		}
	}
	fields, _ := parts[4].([]any)
	r.fields = make(map[string]string, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		name, _ := fields[i].(string)
		r.fields[name], _ = fields[i+1].(string)
	}
	return r, nil
}

// runs are those that Redis holds, the newest first. A run that can't be read is left out: another version of dispatcher wrote it.
func (r *reply) runs() []Run {
	all := []Run{}
	for id, text := range r.fields {
		var run Run
		if id == "revision" || strings.Contains(id, ":") || json.Unmarshal([]byte(text), &run) != nil {
			continue
		}
		run.ID = id
		if us, err := strconv.ParseInt(r.fields[id+":at"], 10, 64); run.State == Running && (err != nil || r.now.Sub(time.UnixMicro(us)).Abs() > LostAfter) {
			run.State = Lost
		}
		var stop stopRequest
		if json.Unmarshal([]byte(r.fields[id+":stop"]), &stop) == nil && run.State == Running {
			run.StoppedBy = stop.By
		}
		all = append(all, run)
	}
	slices.SortFunc(all, func(a, b Run) int { return cmp.Or(b.Started.Compare(a.Started), strings.Compare(b.ID, a.ID)) })
	return all
}

// List returns the runs, the newest first.
func (s *Store) List(ctx context.Context) ([]Run, error) {
	r, err := s.call(ctx, change{revision: readOnly})
	if err != nil {
		return nil, err
	}
	return r.runs(), nil
}

// tries is how often a start is tried again where others start runs at the same time.
const tries = 5

// start gives a run its id and its time, and writes it. It returns [RunningError] where the topic has a run.
func (s *Store) start(ctx context.Context, run Run) (Run, error) {
	for range tries {
		before, err := s.call(ctx, change{revision: readOnly})
		if err != nil {
			return run, err
		}
		runs := before.runs()
		for _, other := range runs {
			if other.State == Running && other.Topic == run.Topic {
				return run, &RunningError{other}
			}
		}
		removed, err := superfluous(runs)
		if err != nil {
			return run, err
		}
		run.Started = before.now.UTC()
		run.ID = fmt.Sprintf("%s-%08x", run.Started.Format("20060102-150405"), rand.Uint32())
		after, err := s.call(ctx, change{
			revision: strconv.FormatInt(before.revision, 10), id: run.ID, run: run, removed: removed,
			event: run.ID + " started, " + run.text() + audit.Because(run.Why), by: run.By,
		})
		if err != nil || after.written {
			return run, err
		}
	}
	return run, ErrBusy
}

// superfluous are the oldest runs that have to go for another one. A running one does not.
func superfluous(runs []Run) (ids []string, err error) {
	n := len(runs) + 1 - MostRuns
	for _, run := range slices.Backward(runs) {
		if n > len(ids) && run.State != Running {
			ids = append(ids, run.ID)
		}
	}
	if n > len(ids) {
		return nil, fault.New("redrives", len(runs), "as many are running as there may be; wait for the end of one")
	}
	return ids, nil
}

// save writes how a run stands, with an event or none. It returns the request to stop, if there is one.
func (s *Store) save(ctx context.Context, run Run, event, by string) (*stopRequest, error) {
	r, err := s.call(ctx, change{revision: anyTime, id: run.ID, run: run, event: event, by: by})
	return r.stop, err
}

// Get returns a run, or [ErrUnknown].
func (s *Store) Get(ctx context.Context, id string) (Run, error) {
	runs, err := s.List(ctx)
	if err != nil {
		return Run{}, err
	}
	at := slices.IndexFunc(runs, func(r Run) bool { return r.ID == id })
	if at < 0 {
		return Run{}, ErrUnknown
	}
	return runs[at], nil
}

// Stop asks the node of a run to stop it, which it does within two seconds, between two batches. It returns [ErrUnknown] or
// [ErrOver] where there is nothing to stop.
func (s *Store) Stop(ctx context.Context, id, by, why string) (Run, error) {
	if err := audit.CheckWhy(why); err != nil {
		return Run{}, err
	}
	run, err := s.Get(ctx, id)
	switch {
	case err != nil:
		return run, err
	case run.State != Running:
		return run, fmt.Errorf("%w: %s is %s", ErrOver, id, run.State)
	case run.StoppedBy != "": // it was asked before
		return run, nil
	}
	r, err := s.call(ctx, change{revision: anyTime, id: id, stop: stopRequest{by, why}, event: id + " was asked to stop" + audit.Because(why), by: by})
	if err == nil && !r.written {
		err = ErrUnknown
	}
	run.StoppedBy = by
	return run, err
}

// Events are the last starts, requests to stop, and ends, the newest first.
func (s *Store) Events(ctx context.Context, n int) ([]audit.Event, error) {
	all, err := audit.Read(ctx, s.rdb, s.events(), n)
	if err != nil {
		return nil, fmt.Errorf("redrives: %w", err)
	}
	return all, nil
}
