package throttle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/bubbles"
	"dispatcher/internal/containers"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// crowd are nodes of one limit, and what each of them has used.
type crowd struct {
	mu    sync.Mutex
	uses  map[string][]time.Time
	calls atomic.Int64
}

func newCrowd() *crowd { return &crowd{uses: map[string][]time.Time{}} }

// node runs a limiter until the context ends. With hungry callers it uses each
// slot that it gets. What is killed does not sign off.
func (c *crowd) node(ctx context.Context, t *testing.T, l *Limiter, name string, hungry bool) {
	t.Helper()
	reserve := l.reserve
	l.reserve = func(inner context.Context, a script.Ask) (script.Reservation, error) {
		if ctx.Err() != nil {
			return script.Reservation{}, errors.New("the node was killed")
		}
		c.calls.Add(1)
		return reserve(inner, a)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = l.Run(ctx) })
	if hungry {
		wg.Go(func() {
			drain(ctx, l, 100, func(at time.Time) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.uses[name] = append(c.uses[name], at)
			})
		})
	}
	wg.Wait()
}

// used is how many units each node used after a time, the fewest first.
func (c *crowd) used(after time.Time) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []int
	for _, uses := range c.uses {
		n := 0
		for _, at := range uses {
			if at.After(after) {
				n++
			}
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// fullest is the most that one window holds.
func (c *crowd) fullest(window time.Duration) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []time.Time
	for _, uses := range c.uses {
		all = append(all, uses...)
	}
	slices.SortFunc(all, time.Time.Compare)
	most, first := 0, 0
	for i := range all {
		for all[i].Sub(all[first]) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}

// limiterOn is a limiter on the model, that hears of changes.
func limiterOn(t *testing.T, m *model, name string, c limit.Contract) *Limiter {
	t.Helper()
	l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: name, Limit: specOf(c)})
	if err != nil {
		t.Fatal(err)
	}
	l.reserve, l.listen = m.local(name, time.Millisecond), func(context.Context) {}
	l.notices.Notified.Store(true)
	return l
}

// A node that has nothing to do, or waits for its turn, asks twice in four seconds
// at most.
func TestAnIdleNodeAsksSeldom(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		m, all := newModel(), newCrowd()
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		const nodes = 20
		for i := range nodes {
			l := limiterOn(t, m, fmt.Sprint("n", i), contract(300))
			wg.Go(func() { all.node(ctx, t, l, "", false) })
		}
		time.Sleep(10 * time.Second)
		all.calls.Store(0)
		time.Sleep(time.Minute)
		if got := float64(all.calls.Load()) / 60 / nodes; got > 0.5 {
			t.Errorf("got %.2f calls a second of an idle node, want at most 0.5", got)
		}
		stop()
		wg.Wait()
	})
}

// crowded lets so many nodes want all there is at 300 a second, and returns the
// calls of the script in a second, and what each node used.
func crowded(t *testing.T, nodes int, played time.Duration) (calls float64, all *crowd) {
	t.Helper()
	m := newModel()
	all = newCrowd()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range nodes {
		name := fmt.Sprint("n", i)
		l := limiterOn(t, m, name, contract(300))
		wg.Go(func() { all.node(ctx, t, l, name, true) })
	}
	const settled = 20 * time.Second
	time.Sleep(settled)
	from := time.Now()
	all.calls.Store(0)
	time.Sleep(played)
	calls = float64(all.calls.Load()) / played.Seconds()
	stop()
	wg.Wait()
	got := all.used(from)
	t.Logf("%d nodes at 300/s: %.0f script calls a second, %.3f of the cap, a node used %d to %d, fullest second %d",
		nodes, calls, float64(sum(got))/300/played.Seconds(), got[0], got[len(got)-1], all.fullest(time.Second))
	if share := sum(got) / nodes; len(got) < nodes || got[0] < share/2 {
		t.Errorf("a node used %d, want at least half of its share of %d", got[0], share)
	}
	if full := all.fullest(time.Second); full > 300 {
		t.Errorf("got %d in one second", full)
	}
	if used := float64(sum(got)) / 300 / played.Seconds(); used < 0.97 {
		t.Errorf("used %.3f of the cap, want 0.97", used)
	}
	return calls, all
}

// Many nodes share a rate in turn, and ask Redis no more often than they have to.
func TestACrowdSharesInTurn(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		if calls, _ := crowded(t, 200, 40*time.Second); calls > 150 {
			t.Errorf("got %.0f calls of the script in a second, want at most 150", calls)
		}
	})
	if testing.Short() {
		return
	}
	bubbles.Test(t, func(t *testing.T) {
		if calls, _ := crowded(t, 1000, time.Minute); calls > 600 {
			t.Errorf("got %.0f calls of the script in a second, want at most 600", calls)
		}
	})
}

// restarts lets one node work, and another one start and be killed again and again.
func restarts(t *testing.T, c limit.Contract, lives []time.Duration) (used int, played time.Duration) {
	t.Helper()
	m, all := newModel(), newCrowd()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	steady := limiterOn(t, m, "steady", c)
	wg.Go(func() { all.node(ctx, t, steady, "steady", true) })
	time.Sleep(c.Window / time.Duration(c.Cap) * 3)
	from := time.Now()
	for i, life := range lives {
		l := limiterOn(t, m, fmt.Sprint("short", i), c)
		short, kill := context.WithCancel(ctx)
		wg.Go(func() { all.node(short, t, l, "short", true) })
		time.Sleep(life)
		kill()
	}
	played = time.Since(from)
	stop()
	wg.Wait()
	return sum(all.used(from)), played
}

// Nodes that come, queue and are killed don't starve the one that works.
func TestKilledNodesDoNotStarveTheOthers(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		used, played := restarts(t, contract(1), slices.Repeat([]time.Duration{600 * time.Millisecond}, 57))
		t.Logf("1/s, another node started and killed each 0.6 s: %d slots used in %v", used, played)
		if want := int(0.6 * played.Seconds()); used < want {
			t.Errorf("got %d slots in %v, want at least %d", used, played, want)
		}
	})
	bubbles.Test(t, func(t *testing.T) {
		c := contractOf(5, time.Hour)
		lives := slices.Repeat([]time.Duration{47 * time.Minute}, 8)
		used, played := restarts(t, c, lives)
		want := int(5*played.Hours()) - 2
		t.Logf("5/h, another node killed %d times: %d slots used in %v", len(lives), used, played)
		if used < want-1 { // where the first and the last slot lie is chance
			t.Errorf("got %d slots in %v, want at least %d", used, played, want)
		}
	})
}

// The same crowd on a real Redis.
func TestACrowdReal(t *testing.T) {
	server := containers.Redis(t)
	const nodes, settled, played = 200, 10 * time.Second, 20 * time.Second
	all := newCrowd()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range nodes {
		rdb := redisclient.New(redisclient.Options{Addrs: []string{server.Addr}})
		t.Cleanup(func() { _ = rdb.Close() })
		name := fmt.Sprint("n", i)
		l, err := New(Options{Redis: rdb, Namespace: "crowd", Name: "provider", Node: name, Limit: specOf(contract(300))})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { all.node(ctx, t, l, name, true) })
	}
	time.Sleep(settled)
	from := time.Now()
	all.calls.Store(0)
	time.Sleep(played)
	calls := float64(all.calls.Load()) / played.Seconds()
	got := all.used(from)
	stop()
	wg.Wait()
	share := sum(got) / nodes
	t.Logf("%d limiters at 300/s on a real Redis: %.0f script calls a second, %.3f of the cap, a node used %d to %d, fullest second %d",
		nodes, calls, float64(sum(got))/300/played.Seconds(), got[0], got[len(got)-1], all.fullest(time.Second))
	if calls > 150 {
		t.Errorf("got %.0f calls of the script in a second, want at most 150", calls)
	}
	if len(got) < nodes || got[0] < share/2 {
		t.Errorf("a node used %d, want at least half of its share of %d", got[0], share)
	}
	if full := all.fullest(time.Second); full > 300 {
		t.Errorf("got %d in one second", full)
	}
}
