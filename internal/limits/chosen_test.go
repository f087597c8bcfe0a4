package limits_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/configs"
	"dispatcher/internal/limits"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle/limit"
)

// histories counts how often a history is read.
type histories struct {
	redis.Hook

	read atomic.Int64
}

func (*histories) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*histories) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *histories) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "xrevrange" {
			h.read.Add(1)
		}
		return next(ctx, cmd)
	}
}

// Each open page reads the limit once a second, and the history may hold a thousand changes.
func TestTheHistoryIsReadOnceAChange(t *testing.T) {
	t.Parallel()
	rdb := redisclient.New(redisclient.Options{Addrs: []string{miniredis.RunT(t).Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	var h histories
	rdb.AddHook(&h)
	cfg, err := configs.Load(configs.Source{Set: []string{"limits.0.name=provider"}})
	if err != nil {
		t.Fatal(err)
	}
	r := limits.NewReader(cfg, rdb)
	stated, _ := cfg.Stated(r.First())
	now := stated.Settings()
	now.Auto = true
	change := func(by string, lateness time.Duration) {
		from := now
		now.By, now.Revision, now.Changed = by, now.Revision+1, time.Unix(1_700_000_000+now.Revision, 0)
		now.Contract = now.Contract.WithLateness(lateness)
		operator, err := r.Control(r.First())
		if err != nil {
			t.Fatal(err)
		}
		rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: operator.Keys.History, Values: map[string]any{"from": from.Pack(), "to": now.Pack()}})
		rdb.HSet(t.Context(), operator.Keys.Limit, "settings", now.Pack())
	}
	for _, step := range []struct {
		by       string
		lateness time.Duration
		chosen   bool
	}{{limit.Dispatcher, 20 * time.Millisecond, true}, {"ann", 20 * time.Millisecond, true}, {"ann", 30 * time.Millisecond, false}} {
		change(step.by, step.lateness)
		before := h.read.Load()
		for range 3 {
			d, err := r.Read(t.Context(), r.First(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if (d.Chosen != nil) != step.chosen {
				t.Errorf("a lateness of %s by %s: got the choice %+v, want one: %v", step.lateness, step.by, d.Chosen, step.chosen)
			}
		}
		if n := h.read.Load() - before; n != 1 {
			t.Errorf("a lateness of %s by %s: the history was read %d times, want once", step.lateness, step.by, n)
		}
	}
}
