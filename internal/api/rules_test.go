package api_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"dispatcher/internal/api"
	"dispatcher/internal/auth"
	"dispatcher/internal/limits"
	"dispatcher/internal/overview"
)

func TestRulesAreMadeAndEndedOverHTTP(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.says(busy())
	made := s.ask(http.MethodPost, "rules", `{"kind": "cancel", "when": "job.headers[\"campaign\"] == \"spring\"", "for": "24h", "why": "wrong price", "by": "anna"}`)
	if made.status != http.StatusOK || made.object["id"] != "1" || made.object["by"] != "anna from 127.0.0.1" {
		t.Fatalf("got %d %s, want the rule", made.status, made.text)
	}
	if lacking := made.object["in_force"].(map[string]any)["lacking"].([]any); len(lacking) != 1 {
		t.Errorf("got %v, want the node named that does not know the rule", made.text)
	}
	if all := s.get("rules"); !strings.Contains(all.text, `"why":"wrong price"`) {
		t.Errorf("got %s, want the rule listed", all.text)
	}
	if ended := s.ask(http.MethodDelete, "rules/1", `{"why": "right again"}`); ended.status != http.StatusOK {
		t.Errorf("got %d %s", ended.status, ended.text)
	}
	if again := s.ask(http.MethodDelete, "rules/1", ""); again.status != http.StatusNotFound {
		t.Errorf("got %d %s, want 404", again.status, again.text)
	}
	if history := s.get("rules/history"); !strings.Contains(history.text, "1 ended: right again") {
		t.Errorf("got %s", history.text)
	}
	if preview := s.get("rules/preview?when=true"); preview.status != http.StatusOK || !strings.Contains(preview.text, `"silent":["node-1"]`) {
		t.Errorf("got %d %s, want the node named that does not answer", preview.status, preview.text)
	}
	for body, want := range map[string]string{
		`{"kind": "stop", "when": "true", "for": "1h"}`:                `"field":"kind"`,
		`{"kind": "hold", "when": "job.colour", "for": "1h"}`:          `"field":"when"`,
		`{"kind": "hold", "when": "true"}`:                             `"field":"until"`,
		`{"kind": "hold", "when": "true", "until": "tomorrow"}`:        `"field":"until"`,
		`{"kind": "hold", "when": 7, "for": "1h"}`:                     `"remedy":"must be text"`,
		`{"kind": "hold", "when": "true", "for": "1h", "force": true}`: `"field":"force"`,
	} {
		if got := s.ask(http.MethodPost, "rules", body); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.text, want) {
			t.Errorf("%s: got %d %s, want %s", body, got.status, got.text, want)
		}
	}
}

// A rule is made also where no node ever worked, and that is no error: nothing of it would be undone.
func TestARuleIsMadeBeforeAnyNodeWorks(t *testing.T) {
	t.Parallel()
	s := serveNone(t, auth.Options{Loopback: true}, api.Options{})
	s.must(s.ask(http.MethodPost, "rules", `{"kind": "hold", "when": "true", "for": "1h"}`), 200, `"id":"1"`)
	s.must(s.get("rules"), 200, `"id":"1"`)
	s.must(s.ask(http.MethodDelete, "rules/1", `{"for":"1h"}`), 422, `"field":"for"`, "is unknown here") // it would not come back
	s.must(s.ask(http.MethodDelete, "rules/1", ""), 200)
}

// With wait=true as well: an answer without after_s says that nobody has confirmed the rule.
func TestNoNodeConfirmsARule(t *testing.T) {
	t.Parallel()
	s := serveNone(t, auth.Options{Loopback: true}, api.Options{})
	made := s.must(s.ask(http.MethodPost, "rules?wait=true", `{"kind": "hold", "when": "true", "for": "1h"}`), 200, `"in_force":{"nodes":0,"of":0,"lacking":[]}`)
	if strings.Contains(made.text, "after_s") {
		t.Errorf("got %s", made.text)
	}
}

// slow is a context whose deadline is over, and that has not noticed: its timer is late.
type slow struct{ context.Context } //nolint:containedctx // is one

func (slow) Err() error            { return nil }
func (slow) Done() <-chan struct{} { return nil }

// A wait that ends before Redis has said anything knows of no node.
func TestLawAWaitWithoutAReadingFails(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Millisecond))
	defer cancel()
	if in, err := reader(t, s).AwaitRules(slow{ctx}, 1); err == nil || in.Lacking == nil {
		t.Errorf("got %+v and %v, want an empty list and an error", in, err)
	}
}

// A wait that ends while Redis is being asked again is no failure of Redis: what was read before counts.
func TestAWaitForTheNodesEnds(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.says(busy())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var readings atomic.Int64
	s.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		settings := command == "HGET" && args[1] == "settings" // nodes and scripts read other fields
		if !settings || readings.Add(1) < 2 {
			return false
		}
		cancel()
		c.WriteError("ERR away")
		return true
	})
	if in, err := reader(t, s).AwaitRules(ctx, 1); err != nil || len(in.Lacking) != 1 {
		t.Errorf("got %+v and %v, want the node that does not know the rule", in, err)
	}
}

func TestARuleWhoseNodesCanNotBeReadIsMade(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.fails("HGET")
	for _, query := range []string{"", "?wait=true"} {
		s.must(s.ask(http.MethodPost, "rules"+query, `{"kind": "hold", "when": "true", "for": "1h"}`), 503, "is made, but which nodes know it could not be read: ")
	}
}

func reader(t *testing.T, s served) overview.Reader {
	t.Helper()
	return overview.Reader{Reader: limits.NewReader(config(t), client(t, s.redis))}
}
