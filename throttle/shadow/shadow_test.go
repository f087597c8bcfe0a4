package shadow_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/containers"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/shadow"
)

func connect(t *testing.T, addr string) redis.UniversalClient {
	t.Helper()
	rdb := redisclient.New(redisclient.Options{Addrs: []string{addr}, Timeout: 5 * time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// proves expects that each algorithm keeps its bound on a shadow limit, and leaves nothing behind.
func proves(t *testing.T, rdb redis.UniversalClient, identity throttle.Identity, algorithms []limit.Algorithm) {
	t.Helper()
	for _, a := range algorithms {
		p, err := shadow.Prove(t.Context(), shadow.Options{Redis: rdb, Namespace: "ns", Algorithm: a.Name, Identity: identity})
		if err != nil || p.Err() != nil {
			t.Errorf("%s: %+v: %v, %v", a.Name, p, err, p.Err())
		}
		if p.Most < 2 {
			t.Errorf("%s: got %d units in the fullest window, so nothing was limited: %+v", a.Name, p.Most, p)
		}
		if names, err := control.Limits(t.Context(), rdb, "ns"); err != nil || len(names) != 0 {
			t.Errorf("%s: the fleet lists %v (%v), want nothing", a.Name, names, err)
		}
		if left, err := rdb.Keys(t.Context(), "*").Result(); err != nil || len(left) != 0 {
			t.Errorf("%s: left %v (%v)", a.Name, left, err)
		}
	}
}

func withoutModule() (list []limit.Algorithm) {
	for _, a := range limit.Algorithms() {
		if a.Name != limit.RedisCell {
			list = append(list, a)
		}
	}
	return list
}

func TestEachAlgorithmLimits(t *testing.T) {
	t.Parallel()
	proves(t, connect(t, miniredis.RunT(t).Addr()), throttle.IdentityNone, withoutModule())
}

func TestEachAlgorithmLimitsReal(t *testing.T) {
	t.Parallel()
	proves(t, connect(t, containers.Redis(t).Addr), throttle.IdentityInfo, withoutModule())
}

// A proof that can't delete its keys leaves them with a time to live.
func TestKeysEnd(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	rdb := connect(t, mini.Addr())
	rdb.AddHook(noDel{})
	if _, err := shadow.Prove(t.Context(), shadow.Options{Redis: rdb, Namespace: "ns", Identity: throttle.IdentityNone}); err != nil {
		t.Fatal(err)
	}
	keys := mini.Keys()
	if len(keys) == 0 {
		t.Fatal("no key is left, so nothing was shown")
	}
	for _, key := range keys {
		if !strings.HasPrefix(key, "dispatcher:{ns}:check:") || mini.TTL(key) <= 0 {
			t.Errorf("got %s with %s to live, want a shadow key that ends", key, mini.TTL(key))
		}
	}
}

// noDel loses each DEL.
type noDel struct{}

func (noDel) DialHook(next redis.DialHook) redis.DialHook { return next }

func (noDel) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (noDel) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "del" {
			return nil
		}
		return next(ctx, cmd)
	}
}

// A Redis whose scripts grant what they are asked for is found out, and one that grants nothing as well.
func TestAProofJudges(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]shadow.Proof{
		"granted nothing": {Bound: 5, Window: time.Second},
		"granted 20 units in a window of 1s, and 5 are the most": {Granted: 20, Most: 20, Bound: 5, Window: time.Second},
	} {
		if err := p.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
