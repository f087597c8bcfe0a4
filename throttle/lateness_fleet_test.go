package throttle

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/bubbles"
	"dispatcher/throttle/control"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/lateness"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// No window holds more than the cap while the lateness goes up and down, with
// calls as early and as late as the terms of their slots allow.
func TestNeverOverWhileTheLatenessChanges(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	rdb := embeddedRedis(t)
	for seed := range uint64(4) {
		c := autoContract(time.Second)
		roll := diceOf(seed)
		if roll(2) == 0 {
			c.Burst = 1 + roll(100)
		}
		f := newFleet(t, rdb, asWritten, roll, 3, c)
		f.poll()
		f.pass(3_000_000)
		for range 12 {
			f.set(control.Change{Values: parameters.Values{"guard": parameters.Auto, "lateness": limit.LatenessClasses[roll(int64(len(limit.LatenessClasses)))].String()}})
			f.poll()
			f.calling = []calling{anyTime, atOnce, atLast}[roll(3)]
			for range 20 + roll(60) {
				f.reserve(f.nodes[roll(3)], 1+roll(20), roll(500), roll(500), roll(20) == 0)
				f.pass(roll(20_000))
			}
		}
		if over := f.over(c.Window); over != "" {
			t.Fatalf("seed %d: %s", seed, over)
		}
		if len(f.calls) < 500 {
			t.Fatalf("seed %d: got %d calls; so few prove nothing", seed, len(f.calls))
		}
	}
}

// Nodes that are stopped now and then find out by themselves, and the lateness
// that one of them chooses is in force on all.
func TestStoppedNodesChooseALateness(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		m := newModel()
		fleet := &lateFleet{model: m, counts: map[int64]lateness.Counts{}}
		var all []*Limiter
		for i := range 3 {
			all = append(all, fleet.node(t, fmt.Sprint(i), autoContract(time.Second), time.Millisecond))
		}
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		var callers sync.WaitGroup
		for i, l := range all {
			callers.Go(func() { stoppedCaller(ctx, l, time.Duration(i)*7*time.Millisecond) })
		}
		callers.Wait()
		for i, l := range all {
			s := l.State().Settings
			if s.Lateness < 12*time.Millisecond || s.By != limit.Dispatcher || s.Guard != s.Lateness+s.Spread {
				t.Errorf("node %d works with %v by %s, want a longer lateness", i, s.Contract, s.By)
			}
		}
		if fleet.changes != 1 {
			t.Errorf("got %d changes, want 1", fleet.changes)
		}
	})
}

// stoppedCaller uses slots on a node that stands still for 10 ms in each 100 ms.
func stoppedCaller(ctx context.Context, l *Limiter, phase time.Duration) {
	const every, length = 100 * time.Millisecond, 10 * time.Millisecond
	for c := callerOf(l, 100); ctx.Err() == nil; {
		s, err := c.next(ctx)
		if err != nil {
			return
		}
		time.Sleep(time.Until(s.NotBefore))
		if at := (time.Duration(time.Now().UnixNano()) + phase) % every; at < length {
			time.Sleep(length - at)
		}
		if now := time.Now(); s.LateAt(now) {
			l.Missed(s)
		} else {
			l.Used(s, now)
		}
	}
}

// lateFleet does in Go what lateness.lua and configure.lua do.
type lateFleet struct {
	model   *model
	counts  map[int64]lateness.Counts // by second
	changes int
}

// node runs a node of the fleet, so far from Redis.
func (f *lateFleet) node(t *testing.T, name string, c limit.Contract, rtt time.Duration) *Limiter {
	t.Helper()
	l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Limit: specOf(c)})
	if err != nil {
		t.Fatal(err)
	}
	l.reserve, l.listen = f.model.local(name, rtt), func(context.Context) {}
	l.reports.lateness.Send, l.reports.lateness.Configure = f.report, f.configure
	run(t, l)
	return l
}

// Where Redis answers too slowly for every node, no slot is used that could choose another lateness. The
// fleet takes one with which a node can work, if any fits the window. It takes none for a node alone.
func TestAFleetFarFromRedisWorksWithALongerLateness(t *testing.T) {
	few, short := autoContract(time.Second), autoContract(150*time.Millisecond)
	few.Cap = 3
	far, fixed := 8*time.Millisecond, few
	fixed.Auto = false
	for name, row := range map[string]struct {
		contract limit.Contract
		trips    []time.Duration // of each node
		want     time.Duration   // in force after a minute
		used     bool            // by the last node
	}{
		"all of it":        {few, []time.Duration{far, far, far}, 12 * time.Millisecond, true},
		"one further":      {few, []time.Duration{4 * far, far, far}, 12 * time.Millisecond, true},
		"further than fit": {few, []time.Duration{60 * time.Millisecond}, 3 * time.Millisecond, false},
		"a short window":   {short, []time.Duration{far}, 3 * time.Millisecond, false},
		"a fixed guard":    {fixed, []time.Duration{far}, 3 * time.Millisecond, false},
		"one node alone":   {few, []time.Duration{time.Millisecond, far}, 3 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubbles.Test(t, func(t *testing.T) {
				fleet := &lateFleet{model: newModel(), counts: map[int64]lateness.Counts{}}
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				var all []*Limiter
				var callers sync.WaitGroup
				used := make([]int, len(row.trips))
				for i, rtt := range row.trips {
					l := fleet.node(t, fmt.Sprint(i), row.contract, rtt)
					callers.Go(func() { used[i] = useSlots(ctx, l) })
					all = append(all, l)
				}
				callers.Wait()
				for i, l := range all {
					if got := l.State().Settings.Lateness; got != row.want {
						t.Errorf("node %d works with lateness %s, want %s", i, got, row.want)
					}
				}
				if got := used[len(used)-1]; got > 0 != row.used {
					t.Errorf("the last node used %d slots, want some: %t", got, row.used)
				}
			})
		})
	}
}

// useSlots uses slots until the context ends, and returns how many.
func useSlots(ctx context.Context, l *Limiter) (used int) {
	for c := callerOf(l, 1); ; {
		s, err := c.next(ctx)
		if err != nil {
			return used
		}
		if s.Wait(ctx) == nil {
			l.Used(s, time.Now())
			used++
		}
	}
}

func (f *lateFleet) report(_ context.Context, r lateness.Report) (lateness.Reply, error) {
	f.model.mu.Lock()
	defer f.model.mu.Unlock()
	now := time.Now()
	c := f.counts[now.Unix()]
	c.Add(r.Counts)
	f.counts[now.Unix()] = c
	if r.Moved == lateness.MovedUp {
		clear(f.counts)
	}
	reply := lateness.Reply{Now: now.UnixMicro(), Chooses: r.Moved == lateness.MovedNot, Fell: -1, Evidence: lateness.Evidence{Patience: lateness.LeastPatience}}
	for i := range int64(8) {
		reply.Evidence.Seconds = append(reply.Evidence.Seconds, f.counts[now.Unix()-i])
	}
	return reply, nil
}

func (f *lateFleet) configure(_ context.Context, expected, to limit.Settings) (script.ChangeStatus, error) {
	f.model.mu.Lock()
	defer f.model.mu.Unlock()
	if f.model.set.Revision != expected.Revision {
		return script.ChangeConflict, nil
	}
	f.model.set = to
	f.changes++
	return script.ChangeDone, nil
}
