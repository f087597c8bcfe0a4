package limitcmd

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"dispatcher/cmd/dispatcher/internal/clitest"
)

func TestTheShellCompletesNamesAndValues(t *testing.T) {
	t.Parallel()
	addr := seeded(t)
	complete := func(ctx context.Context, addr string, args ...string) string {
		o := clitest.Run(ctx, New, "", nil, append([]string{"__complete", "--set", "redis.addrs=" + addr}, args...)...)
		if o.Err != nil {
			t.Error(o.Err)
		}
		return o.Out
	}
	for _, verb := range []string{"get", "set", "unset", "pause", "resume", "release", "undo", "history", "delete"} {
		if got := complete(t.Context(), addr, "limit", verb, ""); got != "provider\tat most 400 in any 1s, burst 1\n:4\n" {
			t.Errorf("limit %s: got %q, want the limit", verb, got)
		}
		if got := complete(t.Context(), addr, "limit", verb, "provider", ""); got != ":4\n" {
			t.Errorf("limit %s: got %q for a second name, want none", verb, got)
		}
	}
	if got := complete(t.Context(), addr, "limit", "set", "provider", "--algorithm", "g"); !strings.Contains(got, "gcra\n") {
		t.Errorf("got %q, want the algorithms", got)
	}
	if got := complete(t.Context(), "127.0.0.1:1", "limit", "get", ""); got != ":4\n" {
		t.Errorf("got %q without a Redis, want none", got)
	}
	if got := complete(t.Context(), "no address", "limit", "get", ""); got != ":4\n" {
		t.Errorf("got %q of settings with a fault, want none", got)
	}
}

// A Redis that does not answer holds up nobody who presses Tab.
func TestCompletionGivesUpSoon(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // nobody reads from a connection
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	begin := time.Now()
	o := clitest.Run(t.Context(), New, "", nil, "__complete", "--set", "redis.addrs="+silent.Addr().String(), "limit", "get", "")
	if took := time.Since(begin); o.Out != ":4\n" || took > 5*time.Second {
		t.Errorf("got %q after %s, want no names after a second", o.Out, took)
	}
}
