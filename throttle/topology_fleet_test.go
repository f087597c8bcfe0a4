package throttle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/containers"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/phase"
)

// usual is the contract of these tests. A window and a cap this small leave
// nowhere for an extra call to hide: at most 200 slots lie in any second.
func usual() limit.Contract {
	return limit.Contract{
		Cap: 200, Window: time.Second, Burst: 1,
		Guard: limit.DefaultGuard, Lateness: limit.DefaultLateness, Horizon: limit.DefaultHorizon,
	}
}

// realFleet is a fleet in one process: limiters that share nothing but Redis, each
// with jobs that use slots as fast as they come. All of them stamp their
// uses by one monotonic clock, and a use counts only if its stamp lies within
// its slot's times, as the sender's last check does it. So nothing needs to be
// left unjudged when the machine holds the test up: what is late is not used.
type realFleet struct {
	t        *testing.T
	contract limit.Contract
	nodes    []*throttle.Limiter
	done     func()

	mu   sync.Mutex
	uses []use
}

type use struct {
	at   time.Time
	node int
}

// jobs of each node wait at any time, more than a horizon of slots.
const jobs = 40

// startRealFleet lets one node work on each client until the test, or halt, ends it.
func startRealFleet(t *testing.T, c limit.Contract, clients ...redis.UniversalClient) *realFleet {
	t.Helper()
	f := &realFleet{t: t, contract: c}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	f.done = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(f.done)
	for i, rdb := range clients {
		l, err := throttle.New(throttle.Options{
			Redis: rdb, Namespace: "topology", Name: "provider", Node: fmt.Sprint("node", i), Limit: limit.Spec{Terms: limit.Terms{Contract: c}},
		})
		if err != nil {
			t.Fatal(err)
		}
		f.nodes = append(f.nodes, l)
		wg.Go(func() { _ = l.Run(ctx) })
		wg.Go(func() { f.call(ctx, i, l) })
	}
	return f
}

// call uses all slots that a node can get.
func (f *realFleet) call(ctx context.Context, node int, l *throttle.Limiter) {
	var uses sync.WaitGroup
	defer uses.Wait()
	for {
		slots, err := reserve(ctx, l, jobs)
		if err != nil {
			return
		}
		for _, s := range slots {
			uses.Go(func() { f.use(ctx, node, l, s) })
		}
	}
}

func (f *realFleet) use(ctx context.Context, node int, l *throttle.Limiter, s throttle.Slot) {
	err := s.Wait(ctx)
	now := time.Now()
	switch {
	case errors.Is(err, throttle.ErrLate), err == nil && s.LateAt(now):
		l.Missed(s)
	case err == nil:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.uses = append(f.uses, use{now, node})
	}
}

// reserve waits for a node's turn, and asks for so many slots at most.
func reserve(ctx context.Context, l *throttle.Limiter, jobs int) (slots []throttle.Slot, err error) {
	room, err := l.Turn(ctx, throttle.OneLane, nil)
	if err != nil {
		return nil, err
	}
	answers, err := l.Reserve(ctx, slices.Repeat([]throttle.Request{{Cost: 1}}, min(room.Jobs, jobs)))
	for _, a := range answers {
		if !a.Slot.IsZero() {
			slots = append(slots, a.Slot)
		}
	}
	return slots, err
}

// next waits for one slot.
func next(ctx context.Context, l *throttle.Limiter) (throttle.Slot, error) {
	for {
		if slots, err := reserve(ctx, l, 1); err != nil || len(slots) > 0 {
			return append(slots, throttle.Slot{})[0], err
		}
	}
}

// since returns the uses from then on, in their order.
func (f *realFleet) since(from time.Time) []use {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []use
	for _, u := range f.uses {
		if !u.at.Before(from) {
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b use) int { return a.at.Compare(b.at) })
	return list
}

// halt ends the nodes and judges: no window holds more than the cap.
func (f *realFleet) halt() {
	f.t.Helper()
	f.done()
	most := f.fullest(time.Time{})
	if most > int(f.contract.Cap) {
		f.t.Errorf("got %d calls in one window of %s, want at most %d", most, f.contract.Window, f.contract.Cap)
	}
	f.t.Logf("%d calls, %d in the fullest window, the cap is %d", len(f.since(time.Time{})), most, f.contract.Cap)
}

// fullest is how many calls the fullest window from then on holds.
func (f *realFleet) fullest(from time.Time) (most int) {
	all := f.since(from)
	end := 0
	for i := range all {
		for end < len(all) && all[end].at.Sub(all[i].at) < f.contract.Window {
			end++
		}
		most = max(most, end-i)
	}
	return most
}

// works waits until, within that time, the uses of more than a window have come.
func (f *realFleet) works(within time.Duration) {
	f.t.Helper()
	from := time.Now()
	if !f.eventually(within, func() bool { return len(f.since(from)) >= int(f.contract.Cap)*5/4 }) {
		f.t.Fatalf("got %d calls in %s; states:\n%s", len(f.since(from)), within, f.states())
	}
}

// standstill is how long a fault may hold work up. It is long beside the time
// after which these servers are taken for dead.
const standstill = 10 * time.Second

// goesOn waits until work goes on after a fault that began then, and shows the
// longest gap between two uses since.
func (f *realFleet) goesOn(fault time.Time) {
	f.t.Helper()
	f.works(time.Minute)
	gap, last := time.Duration(0), fault
	for _, u := range f.since(fault) {
		gap, last = max(gap, u.at.Sub(last)), u.at
	}
	f.t.Logf("longest gap after the fault: %s", gap.Round(time.Millisecond))
	containers.Figure(f.t, gap <= standstill, "work stood still for %s, want at most %s", gap, standstill)
}

// comesBack waits for the first use that was not reserved before the fault.
func (f *realFleet) comesBack(fault time.Time) {
	f.t.Helper()
	restart := fault.Add(f.contract.Horizon + f.contract.Lateness + 500*time.Millisecond)
	if !f.eventually(time.Minute, func() bool { return len(f.since(restart)) > 0 }) {
		f.t.Fatalf("no call came after the fault; states:\n%s", f.states())
	}
}

// says waits until the node's state is as given, and shows it.
func (f *realFleet) says(node int, want phase.Phase, words string) {
	f.t.Helper()
	ok := f.eventually(30*time.Second, func() bool {
		s := f.nodes[node].State()
		return s.Phase == want && strings.Contains(fmt.Sprint(s.Ready()), words)
	})
	if !ok {
		f.t.Fatalf("node %d never was %s with %q; states:\n%s", node, want, words, f.states())
	}
	f.t.Logf("node %d is %s: %v", node, want, f.nodes[node].State().Ready())
}

// silent says that no node has called since then.
func (f *realFleet) silent(from time.Time) {
	f.t.Helper()
	if n := len(f.since(from)); n > 0 {
		f.t.Errorf("got %d calls, want none", n)
	}
}

func (f *realFleet) states() string {
	var b strings.Builder
	for i, l := range f.nodes {
		s := l.State()
		fmt.Fprintf(&b, "node %d: %s, width %s, %v\n", i, s.Phase, s.Width, s.Ready())
	}
	return b.String()
}

func (f *realFleet) eventually(within time.Duration, is func() bool) bool {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); pause(20 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return is()
}

// pause lets the fleet work for a while; nothing is judged by how long it was.
func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// client is one node's own.
func client(t *testing.T, o redisclient.Options) redis.UniversalClient {
	t.Helper()
	rdb := redisclient.New(o)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// clients are as many with the same options.
func clients(t *testing.T, n int, o redisclient.Options) []redis.UniversalClient {
	t.Helper()
	list := make([]redis.UniversalClient, 0, n)
	for range n {
		list = append(list, client(t, o))
	}
	return list
}
