package throttle

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"dispatcher/internal/bubbles"
	"dispatcher/internal/containers"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle/control"
	"dispatcher/throttle/internal/script"
)

// drain takes slots for so many jobs that wait, each at its time, until ctx ends, and
// reports when.
func drain(ctx context.Context, l *Limiter, jobs int, used func(time.Time)) {
	for c := callerOf(l, jobs); ; {
		s, err := c.next(ctx)
		if err != nil {
			return
		}
		if s.Wait(ctx) == nil {
			used(time.Now())
		}
	}
}

// At 6 a minute, twenty nodes each get their turn, and don't poll Redis for it;
// still a change acts at once.
func TestALowRateIsSharedInTurnAndReactsAtOnce(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		const nodes, played = 20, time.Hour
		c := contract(6)
		c.Window = time.Minute
		m := newModel()
		var calls atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var mu sync.Mutex
		var longest time.Duration
		total := 0
		limiters := make([]*Limiter, nodes)
		for i := range nodes {
			reserve := m.local(fmt.Sprint("n", i), time.Millisecond)
			l := begin(t, c, func(ctx context.Context, a script.Ask) (script.Reservation, error) {
				calls.Add(1)
				return reserve(ctx, a)
			})
			l.notices.Notified.Store(true) // as if it were subscribed
			limiters[i] = l
			last := time.Now()
			wg.Go(func() {
				drain(ctx, l, 1, func(at time.Time) {
					mu.Lock()
					defer mu.Unlock()
					longest, last, total = max(longest, at.Sub(last)), at, total+1
				})
			})
		}
		time.Sleep(played)
		mu.Lock()
		got, waited := total, longest
		mu.Unlock()
		perMinute := float64(calls.Load()) / played.Minutes()
		t.Logf("%d units in %v on %d nodes, the longest wait %v, %.0f script calls a minute", got, played, nodes, waited, perMinute)
		if want := int(6 * played.Minutes()); got < want*97/100 || got > want {
			t.Errorf("got %d units in %v, want 97 to 100 %% of %d", got, played, want)
		}
		if most := 2 * nodes * c.Spacing(); waited > most {
			t.Errorf("a node waited for %v, want at most %v", waited, most)
		}
		if perMinute > 40*nodes {
			t.Errorf("got %.0f script calls a minute, want at most %d a node", perMinute, 40)
		}
		reacts(t, m, limiters, &mu, &total)
		stop()
		wg.Wait()
	})
}

// reacts raises the rate, tells the nodes as Redis does, and wants units within
// half a second.
func reacts(t *testing.T, m *model, limiters []*Limiter, mu *sync.Mutex, total *int) {
	t.Helper()
	faster := m.settings()
	faster.Cap, faster.Revision, faster.Changed = 6000, faster.Revision+1, time.Now()
	m.change(faster)
	for _, l := range limiters {
		l.changed <- struct{}{}
	}
	mu.Lock()
	before := *total
	mu.Unlock()
	time.Sleep(500 * time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	if *total == before {
		t.Error("got no unit within half a second of a raise")
	}
}

// The same on a real Redis, for a minute: what it is asked meanwhile, and how
// long a change takes to be in force on all nodes, and to be felt.
func TestALowRateReal(t *testing.T) {
	t.Parallel()
	server := containers.Redis(t)
	const nodes, played = 20, time.Minute
	c := contract(6)
	c.Window = time.Minute
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	var asked, taken atomic.Int64
	for i := range nodes {
		rdb := redisclient.New(redisclient.Options{Addrs: []string{server.Addr}})
		t.Cleanup(func() { _ = rdb.Close() })
		l, err := New(Options{Redis: rdb, Namespace: "low", Name: "provider", Node: fmt.Sprint("n", i), Limit: specOf(c)})
		if err != nil {
			t.Fatal(err)
		}
		reserve := l.reserve
		l.reserve = func(ctx context.Context, a script.Ask) (script.Reservation, error) {
			asked.Add(1)
			return reserve(ctx, a)
		}
		wg.Go(func() { _ = l.Run(ctx) })
		wg.Go(func() { drain(ctx, l, 1, func(time.Time) { taken.Add(1) }) })
	}
	time.Sleep(5 * time.Second) // they all have come
	calls := asked.Load()
	time.Sleep(played)
	calls = asked.Load() - calls
	units := taken.Load()
	t.Logf("%d script calls in a minute on %d nodes, %d units so far", calls, nodes, units)
	if calls > 40*nodes {
		t.Errorf("got %d script calls in a minute, want at most %d a node", calls, 40)
	}
	if units > 7 {
		t.Errorf("got %d units in %v, and 7 is the most", units, played+5*time.Second)
	}
	raisedAt, all, took := raise(t, server.Addr, 6000)
	felt := func() bool { return taken.Load() > units }
	for time.Since(raisedAt) < time.Minute && !felt() {
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("a raise was in force on %d nodes after %v, and felt after %v", all, took, time.Since(raisedAt))
	if all != nodes || !felt() {
		t.Errorf("a raise is in force on %d nodes of %d, felt: %v", all, nodes, felt())
	}
	containers.Figure(t, time.Since(raisedAt) < 500*time.Millisecond, "a raise was felt after %v, want within 500ms", time.Since(raisedAt))
}

// raise changes the cap as an operator does, who waits until it is in force.
func raise(t *testing.T, addr string, limit int64) (at time.Time, nodes int, took time.Duration) {
	t.Helper()
	operator, err := control.NewControl(patient(t, addr), "low", "provider")
	if err != nil {
		t.Fatal(err)
	}
	at = time.Now()
	set, err := operator.Set(t.Context(), control.Change{Values: map[string]string{"cap": fmt.Sprint(limit)}, By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if nodes, took, err = operator.Await(ctx, set); err != nil {
		t.Fatal(err)
	}
	return at, nodes, took
}

// Nodes whose callers take all that can be reserved ahead ask for blocks, and not
// for each unit that becomes free.
func TestAFullTimelineIsAskedForBlocks(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		const rate, nodes, played = 5_000, 4, 2 * time.Second
		m := newModel()
		var calls, taken atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range nodes {
			reserve := m.local(fmt.Sprint("n", i), time.Millisecond)
			l := begin(t, contract(rate), func(ctx context.Context, a script.Ask) (script.Reservation, error) {
				calls.Add(1)
				return reserve(ctx, a)
			})
			wg.Go(func() {
				for c := callerOf(l, rate); ; {
					if _, err := c.next(ctx); err != nil {
						return
					}
					taken.Add(1)
				}
			})
		}
		time.Sleep(time.Second) // past the cooldown of the start
		units, asked := taken.Load(), calls.Load()
		time.Sleep(played)
		units, asked = taken.Load()-units, calls.Load()-asked
		stop()
		wg.Wait()
		if perSecond := float64(asked) / played.Seconds(); perSecond > 250 {
			t.Errorf("got %.0f script calls a second, want at most 250", perSecond)
		}
		if perSecond := float64(units) / played.Seconds(); perSecond < 0.95*rate || perSecond > 1.05*rate {
			t.Errorf("got %.0f units a second, want 95 to 105 %% of %d", perSecond, rate)
		}
	})
}

// One timeline carries fifty thousand units a second, and Redis is asked no more
// often for it.
func TestAHighRateReal(t *testing.T) {
	server := containers.Redis(t)
	const rate, nodes = 50_000, 4
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var taken, asked atomic.Int64
	var wg sync.WaitGroup
	for i := range nodes {
		rdb := redisclient.New(redisclient.Options{Addrs: []string{server.Addr}})
		t.Cleanup(func() { _ = rdb.Close() })
		l, err := New(Options{
			Redis: rdb, Namespace: "high", Name: "provider", Node: fmt.Sprint("n", i), Limit: specOf(contract(rate)),
		})
		if err != nil {
			t.Fatal(err)
		}
		reserve := l.reserve
		l.reserve = func(ctx context.Context, a script.Ask) (script.Reservation, error) {
			asked.Add(1)
			return reserve(ctx, a)
		}
		wg.Go(func() { _ = l.Run(ctx) })
		wg.Go(func() {
			for c := callerOf(l, rate); ; {
				s, err := c.next(ctx)
				if err != nil {
					return
				}
				if !s.LateAt(time.Now()) {
					taken.Add(1)
				}
			}
		})
	}
	time.Sleep(2 * time.Second) // past the cooldown of the start
	before, calls, start := taken.Load(), asked.Load(), time.Now()
	time.Sleep(5 * time.Second)
	took := time.Since(start).Seconds()
	units, Scripts := float64(taken.Load()-before)/took, float64(asked.Load()-calls)/took
	stop()
	wg.Wait()
	t.Logf("%.0f units a second of %d, %.0f script calls a second on %d nodes", units, rate, Scripts, nodes)
	if units > rate*1.05 {
		t.Errorf("got %.0f units a second, want at most %d", units, rate)
	}
	if Scripts > 250 {
		t.Errorf("got %.0f script calls a second, want at most 250", Scripts)
	}
	containers.Figure(t, units >= 0.95*rate, "got %.0f units a second, want at least 95 %% of %d", units, rate)
}
