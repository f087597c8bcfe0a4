package throttle

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/bubbles"
	"dispatcher/throttle/control"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/inquiry"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// A limit binds while more jobs come than it allows, and not while fewer do.
func TestALimitBindsUnderMoreJobsThanItAllows(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		every       time.Duration // between jobs, at 100 a second
		least, most float64
	}{{20 * time.Millisecond, 0, 0.01}, {8 * time.Millisecond, 0.8, 1}, {2 * time.Millisecond, 0.8, 1}} {
		bubbles.Test(t, func(t *testing.T) {
			l, err := New(Options{Namespace: "ns", Name: "provider", Limit: limit.Spec{Terms: specOf(contract(100)).Terms, Scope: limit.ScopeNode}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			jobs := make(chan struct{}, 1<<20)
			running.Go(func() { _ = l.Run(ctx) })
			running.Go(func() {
				for ctx.Err() == nil {
					jobs <- struct{}{}
					time.Sleep(row.every)
				}
			})
			running.Go(func() {
				for ctx.Err() == nil {
					select {
					case <-jobs:
						oneSlot(ctx, l)
					case <-ctx.Done():
					}
				}
			})
			time.Sleep(2 * time.Minute)
			if got := l.Binds(0); got < row.least || got > row.most {
				t.Errorf("a job each %v at 100 a second: got %.3f of the time, want %v to %v", row.every, got, row.least, row.most)
			}
			stop()
			running.Wait()
		})
	}
}

// oneSlot waits until one job has had a slot, and used it.
func oneSlot(ctx context.Context, l *Limiter) {
	for {
		if _, err := l.Turn(ctx, OneLane, nil); err != nil {
			return
		}
		answers, err := l.Reserve(ctx, []Request{{Cost: 1}})
		if err != nil {
			return
		}
		if slot := answers[0].Slot; !slot.IsZero() {
			l.Used(slot, slot.NotBefore)
			return
		}
	}
}

// Operators see for how much of the time jobs waited, for each limit and node.
func TestTheShareOfTimeIsInTheNodesRecord(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "", algorithm(limit.TokenBucket), contract(300), 2)
	spec := specOf(contract(1))
	spec.Gate = true
	gate := spec.Settings()
	for i, share := range []float64{0.25, 1} {
		_, err := tr.nodes[i].Reserve(t.Context(), script.Ask{
			Epoch: tr.epochs[i], Since: 1, Binds: []float64{share, share / 2}, Learned: true, Identity: string(IdentityNone), Nearest: nearest, Known: tr.known[i],
			Gates: script.Gates{Known: []limit.Settings{gate}, Names: []string{"recipient"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][]float64{"provider": {0.25, 1}, "recipient": {0.125, 0.5}} {
		c, err := control.NewControl(tr.rdb, tr.space, name)
		if err != nil {
			t.Fatal(err)
		}
		nodes, err := c.Nodes(t.Context())
		if err != nil || len(nodes) != 2 {
			t.Fatalf("%s: got %+v and %v, want two nodes", name, nodes, err)
		}
		for i, n := range nodes {
			if math.Abs(n.Binds-want[i]) > 0.001 {
				t.Errorf("%s: got %.3f for node %d, want %.3f", name, n.Binds, i, want[i])
			}
		}
	}
}

// Nodes that ended without a word leave a record at each limit. A node that starts removes it.
func TestRecordsOfKilledNodesAreRemoved(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "", algorithm(limit.TokenBucket), contract(300), 1)
	spec := specOf(contract(1))
	spec.Gate = true
	gates := script.Gates{Known: []limit.Settings{spec.Settings()}, Names: []string{"recipient"}}
	starts := func(node string) {
		t.Helper()
		_, err := script.NewScripts(tr.rdb, tr.space, "provider", node).Reserve(t.Context(), script.Ask{
			Seq: 1, Learned: true, Identity: string(IdentityNone), Nearest: nearest, Known: tr.known[0], Gates: gates,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	starts("killed")
	tr.pass((11 * time.Minute).Microseconds())
	starts("new")
	for _, name := range []string{"provider", "recipient"} {
		key := script.KeysOf(tr.space, name).Nodes
		records, err := tr.rdb.HKeys(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(records, "killed") || !slices.Contains(records, "new") {
			t.Errorf("%s: got the records of %v, want that of the new node, and none of the one that was killed", name, records)
		}
	}
}

// Jobs wait for a limit that refused them, is paused or blocked, and not for a Redis that is away.
func TestARefusedOrPausedLimitBinds(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, row := range map[string]struct {
		change func(*reserver)
		want   bool
	}{
		"free":    {func(*reserver) {}, false},
		"refused": {func(r *reserver) { r.lanes[0].refusedUntil = now.Add(time.Second) }, true},
		"refused, and no job waits": {func(r *reserver) {
			r.lanes[0].refusedUntil, r.turn = now.Add(time.Second), inquiry.Inquiry[Lanes, Room]{}
		}, false},
		"slots ahead": {func(r *reserver) {
			r.lanes[0].last, r.turn = now.Add(100*time.Millisecond), inquiry.Inquiry[Lanes, Room]{}
		}, true},
		"the slots before are taken": {func(r *reserver) { r.lanes[0].last = now.Add(5 * time.Millisecond) }, true},
		"a slot at once":             {func(r *reserver) { r.lanes[0].last = now.Add(nearest) }, false},
		"paused":                     {func(r *reserver) { r.known.Paused = true }, true},
		"blocked":                    {func(r *reserver) { r.opensAt = now.Add(time.Second) }, true},
		"Redis is away":              {func(r *reserver) { r.known.Paused, r.failures = true, 3 }, false},
	} {
		l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Limit: specOf(contract(300))})
		if err != nil {
			t.Fatal(err)
		}
		r := &reserver{
			Limiter: l, lanes: make([]lane, 1), known: seeded(contract(300)), kind: algorithm(limit.TokenBucket),
			turn:  inquiry.New[Lanes, Room](OneLane),
			clock: clock.Clock{Origin: now, Epoch: 1},
		}
		r.clock.Observe(clock.Reading{Asked: now, Answered: now, Now: 1_000_000, Epoch: 1})
		row.change(r)
		if got := r.holdsUp(now).After(now); got != row.want {
			t.Errorf("%s: got %v, want %v", name, got, row.want)
		}
	}
}
