package dedup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/background"
	"dispatcher/internal/containers"
	"dispatcher/internal/redisclient"
)

// running is a dedup store that runs until the test ends, and counts its calls.
type running struct {
	*Store
	calls atomic.Int64
}

func runOn(t testing.TB, rdb redis.UniversalClient, o Options) *running {
	t.Helper()
	o.Redis, o.Namespace = rdb, "ns"
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Store: l}
	run := l.run
	l.run = func(ctx context.Context, batch []request) ([]result, bool, error) {
		r.calls.Add(1)
		return run(ctx, batch)
	}
	background.Run(t, l.Run)
	return r
}

// send claims a job and completes it; it returns the claim's answer.
func (r *running) send(t *testing.T, id string) Answer {
	t.Helper()
	e := r.Open(id)
	a, err := e.Claim(t.Context(), time.Time{})
	if err != nil {
		t.Error(err)
		return a
	}
	if a.Standing != Granted {
		return a
	}
	settled := make(chan error, 1)
	e.Done(t.Context(), 1, func(err error) { settled <- err })
	if err := <-settled; err != nil {
		t.Error(err)
	}
	return a
}

// A node at a steady pace needs few calls of Redis, and its jobs hardly wait for them.
func TestPaceReal(t *testing.T) {
	addr := containers.Redis(t).Addr
	for _, tc := range []struct {
		rate  int
		ahead time.Duration // the slot, when the job comes to its worker
	}{{300, 5 * time.Millisecond}, {300, 10 * time.Millisecond}, {1000, 5 * time.Millisecond}, {1000, 10 * time.Millisecond}, {3000, 10 * time.Millisecond}} {
		r := runOn(t, redisclient.New(redisclient.Options{Addrs: []string{addr}}), Options{CallTimeout: 5 * time.Second})
		n := 3 * tc.rate
		late, settle := make([]time.Duration, n), make([]time.Duration, n)
		var jobs sync.WaitGroup
		begin := time.Now()
		for i := range n {
			slot := begin.Add(time.Duration(i)*time.Second/time.Duration(tc.rate) + 20*time.Millisecond)
			timer := time.NewTimer(time.Until(slot.Add(-tc.ahead)))
			<-timer.C
			jobs.Go(func() {
				e := r.Open(fmt.Sprint(tc, i))
				if a, err := e.Claim(t.Context(), slot); err != nil || a.Standing != Granted {
					t.Error(a, err)
					return
				}
				late[i] = time.Since(slot)
				time.Sleep(30 * time.Millisecond) // the call
				answered, acked := time.Now(), make(chan struct{})
				e.Done(t.Context(), 1, func(error) { close(acked) })
				<-acked
				settle[i] = time.Since(answered)
			})
		}
		jobs.Wait()
		slices.Sort(late)
		slices.Sort(settle)
		perJob := float64(r.calls.Load()) / float64(n)
		t.Logf("%d/s, slots %v ahead: %.2f calls a job; granted %v before the slot at the median, %v at p99; settled in %v at the median, %v at p99",
			tc.rate, tc.ahead, perJob, -late[n/2], -late[n*99/100], settle[n/2], settle[n*99/100])
		containers.Figure(t, perJob < 0.5 || tc.ahead < 10*time.Millisecond && perJob < 1.05, "%d/s: got %.2f calls a job, want at most a half", tc.rate, perJob)
		containers.Figure(t, late[n/2] < 0, "%d/s: granted %v after the slot at the median", tc.rate, late[n/2])
	}
}

// On a Cluster all keys of the dedup store lie in one hash slot.
func TestClusterReal(t *testing.T) {
	c := containers.RedisCluster(t)
	var addrs []string
	for _, port := range c.Nodes {
		addrs = append(addrs, fmt.Sprint("127.0.0.1:", port))
	}
	rdb := redisclient.New(redisclient.Options{Addrs: addrs})
	t.Cleanup(func() { _ = rdb.Close() })
	r := runOn(t, rdb, Options{CallTimeout: 5 * time.Second})
	for round := range 2 {
		var jobs sync.WaitGroup
		for i := range 300 {
			jobs.Go(func() {
				want := []Standing{Granted, Sent}[round]
				if a := r.send(t, fmt.Sprint(i)); a.Standing != want {
					t.Errorf("round %d: got %v, want %v", round, a.Standing, want)
				}
			})
		}
		jobs.Wait()
	}
	slot := c.Slot(prefix("ns"))
	keys := c.CLI(c.Owner(slot, c.Nodes[0]), "--scan", "--pattern", "dispatcher:*")
	for key := range strings.FieldsSeq(keys) {
		if got := c.Slot(key); got != slot {
			t.Fatalf("%s lies in slot %d, want %d", key, got, slot)
		}
	}
	t.Logf("%d keys in slot %d", len(strings.Fields(keys)), slot)
	failsOver(t, r, func() { c.Kill(c.Owner(slot, c.Nodes[0])) })
}

// failsOver has jobs sent while the primary dies, and says how many of those
// whose done was acknowledged are forgotten.
func failsOver(t *testing.T, r *running, kill func()) {
	t.Helper()
	var acked sync.Map
	var next, after atomic.Int64
	var killed atomic.Bool
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for after.Load() < 200 && !t.Failed() {
				id := fmt.Sprint("failover", next.Add(1))
				if before := !killed.Load(); r.send(t, id).Standing == Granted && before {
					acked.Store(id, true)
				} else if !before {
					after.Add(1)
				}
			}
		})
	}
	for next.Load() < 1000 && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	kill()
	killed.Store(true)
	down := time.Now()
	senders.Wait()
	back := time.Since(down)
	total, forgotten := 0, 0
	acked.Range(func(id, _ any) bool {
		total++
		if a, err := r.Peek(t.Context(), id.(string)); err != nil || a.Standing != Sent {
			forgotten++
		}
		return true
	})
	t.Logf("the primary died: 200 jobs were sent %v later; of %d that were acknowledged before, %d are forgotten", back.Round(time.Millisecond), total, forgotten)
	if total < 900 || forgotten > total/100 {
		t.Errorf("got %d of %d forgotten, want a few at most", forgotten, total)
	}
}

// A Redis that is away for two seconds and comes back empty: nothing is granted
// meanwhile, the node goes on by itself, and says that the dedup store was lost.
func TestAwayReal(t *testing.T) {
	rdb := redisclient.New(redisclient.Options{Addrs: []string{containers.Redis(t).Addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	reg := prometheus.NewRegistry()
	r := runOn(t, rdb, Options{CallTimeout: 5 * time.Second, Registerer: reg})
	if a := r.send(t, "before"); a.Standing != Granted {
		t.Fatalf("got %v, want granted", a.Standing)
	}
	down := time.Now()
	_ = rdb.Shutdown(t.Context()).Err() // it does not answer
	if a := r.send(t, "meanwhile"); a.Standing != Granted {
		t.Errorf("got %v, want granted", a.Standing)
	}
	took := time.Since(down)
	if took < time.Second || r.Ready() != nil {
		t.Errorf("granted after %v, ready %v; want about 2s and nil", took, r.Ready())
	}
	a := r.send(t, "before")
	t.Logf("granted %v after redis went away; what was sent before is %v", took.Round(10*time.Millisecond), a.Standing)
	if lost := counted(t, reg, "dispatcher_dedup_losses_total"); lost != 1 {
		t.Errorf("got %v lost stores, want 1", lost)
	}
}

// The rights of an account beside those for the limiter. A Redis without free memory
// grants nothing, and reports that.
func TestAccountReal(t *testing.T) {
	addr := containers.Redis(t).Addr
	admin := redisclient.New(redisclient.Options{Addrs: []string{addr}})
	t.Cleanup(func() { _ = admin.Close() })
	args := []any{"acl", "setuser", "dedup", "on", ">secret", "resetchannels", "~dispatcher:{ns}:*", "-@all"}
	for word := range strings.FieldsSeq("+eval +evalsha +time +hmget +hget +hset +hdel +hlen +hincrby +pexpireat +hello +auth +ping +client|setname") {
		args = append(args, word)
	}
	if err := admin.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	rdb := redisclient.New(redisclient.Options{Addrs: []string{addr}, Username: "dedup", Password: "secret"})
	t.Cleanup(func() { _ = rdb.Close() })
	r := runOn(t, rdb, Options{CallTimeout: 5 * time.Second})
	for _, want := range []Standing{Granted, Sent} {
		if a := r.send(t, "job"); a.Standing != want {
			t.Errorf("got %v, want %v", a.Standing, want)
		}
	}
	limit := func(bytes string) {
		t.Helper()
		if err := admin.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	limit("1")
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if a, err := r.Open("other").Claim(ctx, time.Time{}); err == nil || r.Ready() == nil || !strings.Contains(r.Ready().Error(), "OOM") {
		t.Errorf("out of memory: got %v, %v and ready %v, want none and the reason", a, err, r.Ready())
	}
	limit("0")
	if a := r.send(t, "other"); a.Standing != Granted {
		t.Errorf("with memory again: got %v, want granted", a.Standing)
	}
}

// counted is the value of a counter.
func counted(t *testing.T, reg prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}
