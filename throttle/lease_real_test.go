package throttle

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/containers"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle/internal/lease"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/phase"
)

// recorder is when calls were made, over the fleet.
type recorder struct {
	mu    sync.Mutex
	calls []time.Time
}

func (r *recorder) call() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, time.Now())
}

// between is the calls from a to b.
func (r *recorder) between(a, b time.Time) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if !c.Before(a) && c.Before(b) {
			n++
		}
	}
	return n
}

// worst is the most calls in any window.
func (r *recorder) worst(window time.Duration) (most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.calls, time.Time.Compare)
	first := 0
	for i, c := range r.calls {
		for c.Sub(r.calls[first]) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// use uses slots as fast as they come.
func (r *recorder) use(ctx context.Context, l *Limiter) {
	for c := callerOf(l, 5); ctx.Err() == nil; {
		s, err := c.next(ctx)
		if err == nil {
			err = s.Wait(ctx)
		}
		if err == nil {
			r.call()
		}
	}
}

// lendNow makes Redis believe that its leases have been known for a whole lease.
func lendNow(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	if err := rdb.HIncrBy(t.Context(), "dispatcher:{ns}:leases:provider", "since", -2*lease.Length.Microseconds()).Err(); err != nil {
		t.Error(err)
	}
}

// The fleet goes on at the pace of its leases while Redis is away, is never over,
// and goes on as before when Redis is back, empty.
func TestReserveReal(t *testing.T) {
	server := containers.Redis(t)
	c := contract(300)
	c.Reserve, c.MaxNodes = 60, 3
	ctx, stop := context.WithCancel(t.Context())
	var fleet sync.WaitGroup
	t.Cleanup(func() { stop(); fleet.Wait() })
	var calls recorder
	var limiters []*Limiter
	shares := make(chan script.LeaseReply, 1000)
	for i := range 3 {
		rdb := redisclient.New(redisclient.Options{Addrs: []string{server.Addr}})
		t.Cleanup(func() { stop(); fleet.Wait(); _ = rdb.Close() })
		l, err := New(Options{Redis: rdb, Namespace: "ns", Name: "provider", Node: fmt.Sprint("n", i), Limit: specOf(c)})
		if err != nil {
			t.Fatal(err)
		}
		ask := l.askLease
		l.askLease = func(ctx context.Context, s script.LeaseState, left time.Duration) (script.LeaseReply, error) {
			got, err := ask(ctx, s, left)
			for err == nil && !got.Granted && s == script.LeaseNone { // a lease is too long for a test
				lendNow(t, rdb)
				got, err = ask(ctx, s, left)
			}
			if err == nil {
				shares <- got
			}
			return got, err
		}
		limiters = append(limiters, l)
		fleet.Go(func() { _ = l.Run(ctx) })
		fleet.Go(func() { calls.use(ctx, l) })
	}
	for range limiters {
		select {
		case <-shares:
		case <-time.After(30 * time.Second):
			t.Fatal("not every node got a lease within 30 s")
		}
	}
	time.Sleep(3 * time.Second)

	admin := patient(t, server.Addr)
	down := time.Now()
	_ = admin.ShutdownNoSave(t.Context()).Err()
	reserve := 0
	for admin.Ping(t.Context()).Err() != nil {
		for _, l := range limiters {
			if l.State().Phase == phase.Reserve {
				reserve++
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	up := time.Now()
	time.Sleep(4 * time.Second)
	end := time.Now()
	stop()
	fleet.Wait()

	from := down.Add(500 * time.Millisecond) // some failures, and slots that were reserved before
	away := float64(calls.between(from, up)) / up.Sub(from).Seconds()
	after := float64(calls.between(up.Add(2*time.Second), end)) / end.Sub(up.Add(2*time.Second)).Seconds()
	worst := calls.worst(c.Window)
	t.Logf("Redis away for %v: %.1f calls a second meanwhile (reserve 60 a window), %.1f after, %d in the worst window (cap 300)",
		up.Sub(down).Round(time.Millisecond), away, after, worst)
	if worst > 300 {
		t.Errorf("got %d calls in a window, want at most 300", worst)
	}
	if away < 30 || away > 61 {
		t.Errorf("got %.1f calls a second while Redis was away, want about 59", away)
	}
	if after < 120 {
		t.Errorf("got %.1f calls a second after Redis came back, want about 237", after)
	}
	if reserve == 0 {
		t.Error("no node said that it lives on the reserve")
	}
}
