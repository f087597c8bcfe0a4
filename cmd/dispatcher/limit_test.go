package main

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/throttle"
)

// seeded is a Redis in which a node has begun to work with the limit.
func seeded(t *testing.T) (redisAddr string) {
	t.Helper()
	server := miniredis.RunT(t)
	rdb := throttle.NewClient(throttle.ClientOptions{Addrs: []string{server.Addr()}})
	defer func() { _ = rdb.Close() }()
	l, err := throttle.New(throttle.Options{
		Redis: rdb, Namespace: "default", Name: "provider", Identity: throttle.IdentityNone,
		Seed: throttle.Contract{
			Cap: 400, Window: time.Second, Burst: 1,
			Guard: throttle.DefaultGuard, Lateness: throttle.DefaultLateness, Horizon: throttle.DefaultHorizon,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	if _, err := l.Next(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return server.Addr()
}

func TestLimitIsShownAndChanged(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, seeded(t))
	limit("get", "provider").mustPrint(t, "limit provider: at most 400 in any 1s, burst 1\n", "seeded from a file")
	limit("set", "provider", "--cap", "300", "--window", "1m").mustPrint(t, "at most 300 in any 1m", "but 400 in this configuration", "but 1s in this configuration", "@")
	limit("pause", "provider").mustPrint(t, "300 in any 1m, burst 1, paused")
	o := limit("get", "provider", "--json")
	o.mustPrint(t)
	var state limitState
	if err := json.Unmarshal([]byte(o.out), &state); err != nil {
		t.Fatal(err)
	}
	if state.Cap != 300 || state.WindowS != 60 || !state.Paused || state.By == "" || state.Changed == "" || !state.InFile || len(state.Differs) != 2 {
		t.Errorf("got %+v", state)
	}
	limit("resume", "provider").mustPrint(t, "at most 300 in any 1m, burst 1\n")
}

func TestNonsenseChangesNothing(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, seeded(t))
	before := limit("get", "provider", "--json")
	before.mustPrint(t, `"cap":400`)
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"set", "provider"}, "nothing to change"},
		{[]string{"set", "provider", "--cap", "0"}, "cap: 0: must be from 1"},
		{[]string{"set", "provider", "--cap", "-5"}, "cap: -5"},
		{[]string{"set", "provider", "--cap", "many"}, `invalid argument "many"`},
		{[]string{"set", "provider", "--burst", "401"}, "burst: 401: must not be above the cap of 400"},
		{[]string{"set", "provider", "--window", "50ms"}, "window: 50ms: must be at least 10 times the guard"},
		{[]string{"set", "provider", "--window", "5"}, "invalid argument"},
		{[]string{"set", "nobody", "--cap", "3"}, `limit "nobody"`},
		{[]string{"get", "nobody"}, "no such limit"},
		{[]string{"pause", "nobody"}, "no such limit"},
		{[]string{"get", "no}body"}, "name: "},
	} {
		limit(row.args...).mustFail(t, row.want)
	}
	if after := limit("get", "provider", "--json"); after.out != before.out {
		t.Errorf("got %s, want what it was before: %s", after.out, before.out)
	}
}

func TestLimitWithoutRedisFailsSoon(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	addr := server.Addr()
	server.Close()
	limitOn(t, addr)("get", "provider").mustFail(t, `read limit "provider"`)
}

func limitOn(t *testing.T, redisAddr string) func(args ...string) outcome {
	t.Helper()
	return func(args ...string) outcome {
		return dispatcher(t.Context(), "", nil, append([]string{"--set", "redis.addrs=" + redisAddr, "limit"}, args...)...)
	}
}
