package throttle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/bubbles"
	"dispatcher/internal/fault"
	"dispatcher/throttle/internal/lease"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/phase"
)

// withReserve is a contract of 300 a second, 30 of which are divided among 10.
func withReserve() limit.Contract {
	c := contract(300)
	c.Reserve, c.MaxNodes = 30, 10
	return c
}

// Only whole units keep the cap: 15 among 10 nodes is refused, and said why.
func TestReserveIsOfWholeUnits(t *testing.T) {
	t.Parallel()
	c := withReserve()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	c.Reserve = 15
	err := c.Validate()
	var field *fault.Error
	if !errors.As(err, &field) || field.Field != "reserve" || !strings.Contains(err.Error(), "reserve: 15: for 10 nodes is 1.5 units each") {
		t.Errorf("got %v, want a refusal of the reserve of 15", err)
	}
}

// away is a Redis that can be cut off, and lends shares while it is there.
type away struct {
	cut    atomic.Bool
	model  *model
	leases atomic.Int64
	left   atomic.Bool
}

var errCut = errors.New("connection refused")

func (a *away) reserve(ctx context.Context, q script.Ask) (script.Reservation, error) {
	if a.cut.Load() {
		time.Sleep(callTimeout / 2) // it takes its time to fail
		return script.Reservation{}, errCut
	}
	return a.model.local("n", time.Millisecond)(ctx, q)
}

func (a *away) leaseOf(_ context.Context, state script.LeaseState, _ time.Duration) (script.LeaseReply, error) {
	if a.cut.Load() {
		return script.LeaseReply{}, errCut
	}
	a.leases.Add(1)
	a.left.Store(state == script.LeaseLeft)
	a.model.mu.Lock()
	defer a.model.mu.Unlock()
	return script.LeaseReply{Now: time.Now().UnixMicro(), Epoch: a.model.epoch, Granted: true}, nil
}

// limiter runs one that asks it, and returns what ends it.
func (a *away) limiter(t *testing.T) (*Limiter, context.CancelFunc) {
	t.Helper()
	l, err := New(Options{
		Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: "n", Limit: specOf(withReserve()),
	})
	if err != nil {
		t.Fatal(err)
	}
	a.model = newModel()
	l.reserve, l.askLease, l.listen = a.reserve, a.leaseOf, func(context.Context) {}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return l, stop
}

// used takes slots for d and returns when each was used.
func used(t *testing.T, l *Limiter, d time.Duration) []time.Time {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var at []time.Time
	for c := callerOf(l, 1000); ; {
		s, err := c.next(ctx)
		if err != nil {
			return at
		}
		switch err := s.Wait(ctx); {
		case err == nil:
			at = append(at, time.Now())
		case !errors.Is(err, ErrLate):
			return at
		}
	}
}

// shown is limit_lease_held.
func shown(t *testing.T, l *Limiter) float64 {
	t.Helper()
	var m dto.Metric
	if err := l.leases.Held.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}

// While Redis is away the node goes on at the pace of its lease, says so, stops
// when the lease ends, and takes what Redis gives when it is back.
func TestANodeSendsByItsLeaseWhileRedisIsAway(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		a := &away{}
		l, stop := a.limiter(t)
		if got := len(used(t, l, 10*time.Second)); got < 2500 {
			t.Fatalf("got %d calls in ten seconds with Redis, want about 2,670", got)
		}
		a.cut.Store(true)
		_ = used(t, l, 2*time.Second) // it takes some failures to notice
		at := used(t, l, time.Minute)
		if len(at) < 170 || len(at) > 180 {
			t.Errorf("got %d calls in a minute without Redis, want three in 1.01 s", len(at))
		}
		for i := 3; i < len(at); i++ {
			if span := at[i].Sub(at[i-3]); span < 1010*time.Millisecond-limit.DefaultLateness {
				t.Fatalf("got four calls in %v, and a lease is three in 1.01 s", span)
			}
		}
		if s := l.State(); s.Phase != phase.Reserve || s.Ready() == nil || !strings.Contains(s.Ready().Error(), "3 units in 1.01s out of the reserve") {
			t.Errorf("got phase %s and readiness %v, want one that says it lives on the reserve", s.Phase, s.Ready())
		}
		if held := shown(t, l); held != 1 {
			t.Errorf("got limit_lease_held %v under the lease, want 1", held)
		}
		time.Sleep(lease.Length)
		if got := len(used(t, l, time.Minute)); got > 0 || l.State().Phase != phase.Away {
			t.Errorf("got %d calls in phase %s after the lease, want none", got, l.State().Phase)
		}
		if held := shown(t, l); held != 0 {
			t.Errorf("got limit_lease_held %v after the lease, want 0", held)
		}
		a.cut.Store(false)
		if got := len(used(t, l, 10*time.Second)); got < 2500 {
			t.Errorf("got %d calls in ten seconds after Redis came back, want about 2,670", got)
		}
		stop()
		if !a.left.Load() {
			t.Error("the lease was not given up at the end")
		}
	})
}

// A cut of the limit ends the slots that are out, and not those that the lease gives later.
func TestALeaseWorksAfterACut(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		a := &away{}
		l, _ := a.limiter(t)
		_ = used(t, l, 5*time.Second)
		s := a.model.settings()
		s.Changed, s.Revision, s.Cap = time.Now(), s.Revision+1, s.Cap-30
		a.model.change(s)
		time.Sleep(5 * time.Second) // it is learned by a poll
		a.cut.Store(true)
		_ = used(t, l, 2*time.Second)
		if at := used(t, l, time.Minute); len(at) < 170 {
			t.Errorf("got %d calls in a minute without Redis, want three in 1.01 s", len(at))
		}
	})
}

// Nothing is sent out of the reserve by a node that was paused, was refused, or
// has never heard of Redis.
func TestNoLeaseIsUsedByANodeThatMayNot(t *testing.T) {
	for name, edit := range map[string]func(*reserver){
		"paused":        func(b *reserver) { b.known.Paused = true },
		"refused":       func(b *reserver) { b.refusing = true },
		"never heard":   func(b *reserver) { b.learned = false },
		"no reserve":    func(b *reserver) { b.known.Reserve, b.known.MaxNodes = 0, 0 },
		"no lease":      func(b *reserver) { b.lease.Until = time.Time{} },
		"not away yet":  func(b *reserver) { b.failures = awayAfter - 1 },
		"lease is over": func(b *reserver) { b.lease.Until = time.UnixMicro(0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			b := &reserver{Limiter: &Limiter{}, lanes: make([]lane, 1), known: seeded(withReserve()), learned: true, failures: awayAfter, lease: lease.Lease{Until: now.Add(time.Minute)}}
			if !b.onLease(now) {
				t.Fatal("a node that may doesn't use its lease")
			}
			if edit(b); b.onLease(now) {
				t.Error("the node uses its lease")
			}
		})
	}
}

// After a change of the pace a whole period passes, and a slot ends before the
// lease does.
func TestALeaseMixesNoTwoPaces(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	s := lease.Lease{Until: now.Add(10 * time.Second)}
	set := seeded(withReserve())
	before := s.Slots(set, now, time.Second, slices.Repeat([]int64{1}, 100))
	set.Window = 2 * time.Second
	after := s.Slots(set, now.Add(time.Second), time.Minute, slices.Repeat([]int64{1}, 100))
	if len(before) == 0 || len(after) == 0 {
		t.Fatalf("got %d and %d slots", len(before), len(after))
	}
	if gap := after[0].NotBefore.Sub(before[len(before)-1].NotBefore); gap < 2010*time.Millisecond {
		t.Errorf("got %v between the two paces, want the longer period", gap)
	}
	if last := after[len(after)-1]; last.NotAfter.After(s.Until) {
		t.Errorf("a slot may be used until %v, and the lease ends at %v", last.NotAfter, s.Until)
	}
}
