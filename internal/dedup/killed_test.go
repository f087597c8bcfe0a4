package dedup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Three nodes send jobs over real connections; one call in ten to Redis is lost,
// on the way there or back. Nodes are killed with calls under way, and every job
// is delivered again to any node, as Kafka does it. A job whose done Redis has
// acknowledged is never called again. If unknown jobs are parked, no job is called
// twice.
func nodesAreKilled(t *testing.T, addr string, takeOver bool, jobs int) {
	t.Helper()
	f := &killed{
		T: t, jobs: jobs, addr: addr, takeOver: takeOver,
		calls: make([]atomic.Int32, jobs), acked: make([]atomic.Bool, jobs), parked: make([]atomic.Bool, jobs),
	}
	f.play()
}

func TestKilledNodesRepeatNothing(t *testing.T) {
	t.Parallel()
	for _, takeOver := range []bool{false, true} {
		t.Run(fmt.Sprint("taken over ", takeOver), func(t *testing.T) {
			t.Parallel()
			nodesAreKilled(t, miniredis.RunT(t).Addr(), takeOver, 600)
		})
	}
}

type killed struct {
	*testing.T
	jobs     int
	addr     string
	takeOver bool
	calls    []atomic.Int32
	acked    []atomic.Bool
	repeats  atomic.Int32 // calls of jobs that were acknowledged before the claim
	unknown  atomic.Int32
	sent     atomic.Int32
	parked   []atomic.Bool
}

// play runs rounds of three nodes. At the end of each they are killed where they
// stand, and others get all jobs again.
func (f *killed) play() {
	const rounds = 4
	for round := range rounds {
		var nodes sync.WaitGroup
		for n := range 3 {
			last := round == rounds-1
			nodes.Go(func() { f.node(n, last) })
		}
		nodes.Wait()
	}
	twice, lost, parked := 0, 0, 0
	for i := range f.calls {
		if n := f.calls[i].Load(); n > 1 {
			twice++
		} else if n == 0 && !f.parked[i].Load() {
			lost++
		}
		if f.parked[i].Load() {
			parked++
		}
	}
	f.Logf("%d jobs: %d lost, %d called twice, %d calls of what was acknowledged; %d parked, %d deliveries of sent jobs, %d of unknown ones",
		len(f.calls), lost, twice, f.repeats.Load(), parked, f.sent.Load(), f.unknown.Load())
	if f.repeats.Load() > 0 || !f.takeOver && twice > 0 || lost > 0 {
		f.Error("want none of them")
	}
	if f.sent.Load() == 0 || f.unknown.Load() == 0 || f.takeOver && twice == 0 {
		f.Error("nothing was shown: the kills met no call")
	}
}

// node sends its third of the jobs, 32 at a time, and is killed in the
// midst of its calls unless it may end.
func (f *killed) node(n int, last bool) {
	rdb := redis.NewClient(&redis.Options{Addr: f.addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer func() { _ = rdb.Close() }()
	l, err := New(Options{
		Redis: rdb, Namespace: fmt.Sprint("killed", f.takeOver), CallTimeout: 100 * time.Millisecond,
		Config: Config{Margin: 500 * time.Millisecond}, TakeOver: f.takeOver,
	})
	if err != nil {
		f.Error(err)
		return
	}
	ctx, kill := context.WithCancel(f.Context())
	defer kill()
	service, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running, workers sync.WaitGroup
	running.Go(func() { _ = l.Run(service) })
	l.gather = 2 * time.Millisecond
	run := l.run
	l.run = func(of context.Context, batch []request) ([]result, bool, error) {
		if ctx.Err() != nil {
			return nil, false, errAway // a killed node sends nothing more
		}
		lost := rand.N(20)
		if lost == 0 {
			return nil, false, errAway
		}
		answers, gone, err := run(of, batch)
		if lost == 1 {
			return nil, false, errAway
		}
		return answers, gone, err
	}
	var calls atomic.Int32
	called := func() {
		if int(calls.Add(1)) == f.jobs/12 && !last {
			kill()
		}
	}
	jobs := make(chan int)
	for range 32 {
		workers.Go(func() {
			for i := range jobs {
				f.job(ctx, l, i, called)
			}
		})
	}
	for i := n; i < len(f.calls) && ctx.Err() == nil; i += 3 {
		jobs <- i
	}
	close(jobs)
	workers.Wait()
	stop()
	running.Wait()
}

// job is one delivery. A call in flight at the kill reaches the provider, and its
// answer is lost.
func (f *killed) job(ctx context.Context, l *Store, i int, called func()) {
	e := l.Open(fmt.Sprint("job", i))
	for ctx.Err() == nil {
		acked := f.acked[i].Load()
		a, err := e.Claim(ctx, time.Now().Add(5*time.Millisecond))
		switch {
		case err != nil:
			return
		case a.Standing == Sent:
			f.sent.Add(1)
			return
		case a.Standing == Unknown:
			f.unknown.Add(1)
			f.parked[i].Store(true)
			return
		case a.Standing == Busy:
			time.Sleep(a.Wait)
			continue
		case !time.Now().Before(a.UseBy.At):
			continue // this machine was busy elsewhere
		}
		if a.Taken {
			f.unknown.Add(1)
		}
		if acked {
			f.repeats.Add(1)
		}
		f.calls[i].Add(1)
		called()
		time.Sleep(5 * time.Millisecond) // the call
		if ctx.Err() != nil {
			return
		}
		settled := make(chan error, 1)
		e.Done(ctx, 1, func(err error) { settled <- err })
		if err := <-settled; err == nil {
			f.acked[i].Store(true)
		}
		return
	}
}
