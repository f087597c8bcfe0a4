package rules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/redisclient"
	"dispatcher/internal/redisclient/redisfault"
)

// logged makes a watcher, and returns what it has logged.
func logged(s *Store) (*Watcher, *bytes.Buffer) {
	var out bytes.Buffer
	return NewWatcher(WatcherOptions{Store: s, Changed: func() {}, Logger: slog.New(slog.NewTextHandler(&out, nil))}), &out
}

func wantLogged(t *testing.T, out *bytes.Buffer, text string, times int) {
	t.Helper()
	if got := strings.Count(out.String(), text); got != times {
		t.Errorf("got %q %d times, want %d: %s", text, got, times, out.String())
	}
}

// Another version of dispatcher, or a stranger, wrote these rules. A node obeys the one that it can read.
func TestLawARuleThatCanNotBeReadStopsNoNode(t *testing.T) {
	t.Parallel()
	s, server := newStore(t)
	foreign := []string{
		`{"id":"4","kind":"delay","when":"true","until":"2033-01-01T00:00:00Z","by_s":30}`,
		`{"id":"5","kind":"hold","when":"true","until":1988150400}`,
		`{"id":"6","kind":"hold","when":{"all":[]},"until":"2033-01-01T00:00:00Z"}`,
		`{"id":"7","kind":"hold"}`,
		`"hold all"`,
	}
	known := `{"id":"3","kind":"cancel","when":"job.key == \"a\"","until":"2033-01-01T00:00:00Z","colour":"red"}`
	server.HSet(s.key(), "revision", "1700000000000000", "list", "["+strings.Join(append(foreign, known), ",")+"]")
	w, out := logged(s)
	if err := w.Ready(); err == nil || !strings.Contains(err.Error(), "not read yet") {
		t.Errorf("got %v before the rules were read, want that they were not", err)
	}
	w.read(t.Context())
	w.read(t.Context())
	if err := w.Ready(); err != nil {
		t.Errorf("got %v, want that the rules were read", err)
	}
	wantLogged(t, out, "a rule can't be read", len(foreign))
	if got := w.set.Load().rules; len(got) != 1 || got[0].ID != "3" {
		t.Errorf("got %+v in force, want rule 3", got)
	}
	if r, _ := s.mustAdd(t, cancelSpring(), time.Hour); r.ID != "8" {
		t.Errorf("got a new rule of id %s, want 8", r.ID)
	}
	s.mustEnd(t, "5")
	list := server.HGet(s.key(), "list")
	for i, text := range append(foreign, known) {
		if got, want := strings.Contains(list, text), i != 1; got != want {
			t.Errorf("%s: got %t, want %t that it is in the list, which another one was added to and rule 5 ended of: %s", text, got, want, list)
		}
	}
}

// A list that is none counts as empty, and the next rule replaces it.
func TestLawAListThatCanNotBeReadStopsNoNode(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string][]string{
		"no JSON":     {"revision", "1700000000000000", "list", "rules: []"},
		"no array":    {"revision", "1700000000000000", "list", `{"rules":[]}`},
		"no memory":   {"revision", "1700000000000000", "list", "[]", "memory", "7"},
		"no revision": {"revision", "new", "list", `"none"`},
	} {
		s, server := newStore(t)
		server.HSet(s.key(), fields...)
		w, out := logged(s)
		w.read(t.Context())
		w.read(t.Context())
		if err := w.Ready(); err != nil {
			t.Errorf("%s: got %v, want that the rules were read", name, err)
		}
		wantLogged(t, out, "counts as empty", 1)
		made, _ := s.mustAdd(t, cancelSpring(), time.Hour)
		w.read(t.Context())
		if got := w.set.Load().rules; len(got) != 1 || got[0].ID != made.ID {
			t.Errorf("%s: got %+v in force, want the rule that was made: %+v", name, got, made)
		}
		wantLogged(t, out, "counts as empty", 1)
	}
}

// silent answers nothing until the caller gives up.
type silent struct{}

func (silent) DialHook(next redis.DialHook) redis.DialHook { return next }

func (silent) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, _ redis.Cmder) error { <-ctx.Done(); return ctx.Err() }
}

func (silent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The operator sees why a node that has just started calls no job.
func TestANodeLogsOnceThatRedisDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rdb := redisclient.New(redisclient.Options{Addrs: []string{"redis:6379"}, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }})
		defer func() { _ = rdb.Close() }()
		rdb.AddHook(silent{})
		w, out := logged(NewStore(rdb, "ns"))
		w.read(t.Context())
		w.read(t.Context())
		wantLogged(t, out, "could not be read, trying again", 1)
		ended, end := context.WithCancel(t.Context())
		end()
		w, out = logged(NewStore(rdb, "ns"))
		w.read(ended)
		wantLogged(t, out, "could not be read, trying again", 0)
	})
}

// An account that may not publish makes rules all the same: nodes look every two seconds.
func TestARuleIsMadeWithoutTheRightToPublish(t *testing.T) {
	t.Parallel()
	s, redis := newStore(t)
	redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command == "PUBLISH" {
			c.WriteError("NOPERM User dispatcher has no permissions to run the 'publish' command")
		}
		return command == "PUBLISH"
	})
	if r, _ := s.mustAdd(t, cancelSpring(), time.Hour); r.ID != "1" {
		t.Errorf("got %+v, want rule 1", r)
	}
	s.mustEnd(t, "1")
}

// A Redis that stalls for longer than its client waits makes the rule all the same. The operator gets it as made, and there is one.
func TestLawARuleWhoseAnswerIsLostIsMadeOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runs    bool
		answers int64 // that are lost
		unclear bool
		rules   int
	}{
		"made, one answer lost":     {runs: true, answers: 1, rules: 1},
		"made, no answer comes":     {runs: true, answers: 9, unclear: true, rules: 1},
		"not made, one answer lost": {answers: 1, rules: 1},
		"not made, no answer comes": {answers: 9, unclear: true},
	} {
		s, server := newStore(t)
		rdb := redisclient.New(redisclient.Options{Addrs: []string{server.Addr()}})
		t.Cleanup(func() { _ = rdb.Close() })
		faults := &redisfault.Answers{Runs: c.runs, Of: func(cmd redis.Cmder) bool {
			const revision = 5 // behind the command, the script, the number of keys and two keys
			return len(cmd.Args()) > revision && fmt.Sprint(cmd.Args()[revision]) != "-1"
		}}
		rdb.AddHook(faults)
		faults.Lose(c.answers)
		made, revision, err := NewStore(rdb, "ns").Add(t.Context(), cancelSpring(), time.Hour)
		if got := errors.Is(err, redisclient.ErrUnclear); got != c.unclear || err != nil && !got {
			t.Errorf("%s: got %v, want that it is unclear: %v", name, err, c.unclear)
		}
		l, _, err := s.Read(t.Context())
		if err != nil || len(l.Rules) != c.rules {
			t.Errorf("%s: got %+v, %v, want %d rules", name, l, err, c.rules)
		}
		if !c.unclear && (made.ID != "1" || revision != l.Revision) {
			t.Errorf("%s: got rule %+v of revision %d, want rule 1 of revision %d", name, made, revision, l.Revision)
		}
	}
}
