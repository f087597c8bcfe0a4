package throttle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

func contract(units int64) limit.Contract {
	return limit.Contract{Cap: units, Window: time.Second, Burst: 1, Guard: limit.DefaultGuard, Lateness: limit.DefaultLateness, Horizon: limit.DefaultHorizon}
}

// run runs a limiter until the test ends.
func run(t *testing.T, l *Limiter) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// begin runs a limiter in the bubble until the test ends.
func begin(t *testing.T, c limit.Contract, reserve reserveFunc, waiting func() int) *Limiter {
	t.Helper()
	l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: "n", Limit: specOf(c), Waiting: waiting})
	if err != nil {
		t.Fatal(err)
	}
	l.reserve = reserve
	l.listen = func(context.Context) {}
	run(t, l)
	return l
}

// While callers wait, slots come at the spacing of the contract, each at its
// own time, and Redis is asked about once a block.
func TestSlotsComeAtTheirSpacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		reserve := newModel().local("n", time.Millisecond)
		l := begin(t, contract(300), func(ctx context.Context, a script.Ask) (script.Reservation, error) {
			calls.Add(1)
			return reserve(ctx, a)
		}, func() int { return 1000 })
		const n = 600
		var first, last time.Time
		for i := range n {
			s, err := l.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Wait(t.Context()); err != nil {
				t.Fatalf("slot %d: %v", i, err)
			}
			if i == 0 {
				first = time.Now()
				calls.Store(0)
			}
			last = time.Now()
		}
		got, want := last.Sub(first), time.Duration(n-1)*contract(300).Spacing()
		if diff := got - want; diff < -time.Millisecond || diff > 2*time.Millisecond {
			t.Errorf("got %d slots in %v, want %v", n, got, want)
		}
		if got, most := calls.Load(), int64(55*2); got > most {
			t.Errorf("got %d calls of the script in two seconds, want at most %d", got, most)
		}
	})
}

// A caller that goes away gives its slot to the next in line.
func TestCancelledCallerGivesItsSlotOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := begin(t, contract(1), newModel().local("n", time.Millisecond), nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the job was taken away")
		errs := make(chan error)
		go func() {
			_, err := l.Next(ctx)
			errs <- err
		}()
		synctest.Wait()
		got := make(chan Slot)
		go func() {
			s, _ := l.Next(t.Context())
			got <- s
		}()
		synctest.Wait()
		cancel(gone)
		if err := <-errs; !errors.Is(err, gone) {
			t.Errorf("got %v, want the cause %v", err, gone)
		}
		if s := <-got; s.IsZero() {
			t.Error("the next in line got no slot")
		}
	})
}

// Who asks again is served before those who wait for their first slot.
func TestAgainComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := begin(t, contract(10), newModel().local("n", time.Millisecond), nil)
		order := make(chan string, 2)
		go func() {
			_, _ = l.Next(t.Context())
			order <- "next"
		}()
		synctest.Wait()
		go func() {
			_, _ = l.Again(t.Context())
			order <- "again"
		}()
		if got := <-order; got != "again" {
			t.Errorf("got %q first, want again", got)
		}
		<-order
	})
}

// A reply that is lost costs no slot: the next call asks under the same number.
func TestLostReplyIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel()
		reserve, lose := m.local("n", time.Millisecond), 0
		var mu sync.Mutex
		var seqs []int64
		l := begin(t, contract(10), func(ctx context.Context, a script.Ask) (script.Reservation, error) {
			b, err := reserve(ctx, a)
			if a.Want > 0 && b.Schedule.Given > 0 {
				mu.Lock()
				defer mu.Unlock()
				seqs = append(seqs, a.Seq)
				if lose++; lose == 1 {
					return script.Reservation{}, errors.New("connection reset")
				}
			}
			return b, err
		}, nil)
		before, _ := l.Next(t.Context())
		after, _ := l.Next(t.Context())
		mu.Lock()
		defer mu.Unlock()
		if len(seqs) < 2 || seqs[0] != seqs[1] {
			t.Errorf("got reservation numbers %v, want the first one twice", seqs)
		}
		if got, want := after.NotBefore.Sub(before.NotBefore), contract(10).Spacing(); got > want+5*time.Millisecond {
			t.Errorf("got %v between the slots, want %v: a slot was lost", got, want)
		}
	})
}

// Away is waited out, and readiness says so meanwhile.
func TestRedisAwayIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Bool
		reserve := newModel().local("n", time.Millisecond)
		l := begin(t, contract(10), func(ctx context.Context, a script.Ask) (script.Reservation, error) {
			if !back.Load() {
				return script.Reservation{}, errors.New("connection refused")
			}
			return reserve(ctx, a)
		}, nil)
		time.AfterFunc(time.Minute, func() { back.Store(true) })
		time.AfterFunc(30*time.Second, func() {
			if err := l.State().Ready(); err == nil {
				t.Error("ready while Redis is away")
			}
		})
		start := time.Now()
		if _, err := l.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got < time.Minute || got > time.Minute+2*time.Second {
			t.Errorf("got a slot after %v, want it within two seconds of Redis's return after a minute", got)
		}
		if err := l.State().Ready(); err != nil {
			t.Errorf("not ready after Redis came back: %v", err)
		}
	})
}

// A Redis whose replies take longer than the lateness still serves, once one
// reading was tight; before that the limiter says why it stands still.
func TestSlowRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rtt atomic.Int64
		rtt.Store(int64(50 * time.Millisecond))
		m := newModel()
		l := begin(t, contract(10), func(ctx context.Context, a script.Ask) (script.Reservation, error) {
			return m.local("n", time.Duration(rtt.Load()))(ctx, a)
		}, nil)
		time.Sleep(5 * time.Second)
		if got := l.State().Phase; got != PhaseTooSlow {
			t.Errorf("got phase %v, want %v", got, PhaseTooSlow)
		}
		rtt.Store(int64(time.Millisecond))
		time.Sleep(time.Second)
		rtt.Store(int64(50 * time.Millisecond))
		for range 20 {
			s, err := l.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The node remembers the settings, and brings them back to a Redis that lost
// them.
func TestLostSettingsComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel()
		l := begin(t, contract(300), m.local("n", time.Millisecond), nil)
		time.Sleep(time.Second)
		cut := m.settings()
		cut.Cap, cut.Revision, cut.Changed, cut.By = 150, 2, time.UnixMicro(time.Now().UnixMicro()), "ops"
		m.change(cut)
		time.Sleep(limit.PollEvery + 10*time.Millisecond)
		if got := l.State().Settings; got.Cap != 150 || got.Revision != 2 {
			t.Errorf("got %+v half a second after the change, want a cap of 150", got)
		}
		m.lose()
		time.Sleep(time.Second)
		if got := m.settings(); got.Cap != 150 || got.Revision != 2 {
			t.Errorf("got %+v in Redis after it lost everything, want the cap of 150 back", got)
		}
	})
}

// A node whose file says something else than Redis keeps to Redis, also where
// nobody has ever changed the limit.
func TestWhatRedisHoldsIsInForce(t *testing.T) {
	t.Parallel()
	rdb := patient(t, miniredis.RunT(t).Addr())
	first, other := contract(300), contract(100)
	other.Guard, other.Lateness, other.Reserve, other.MaxNodes = 30*time.Millisecond, 20*time.Millisecond, 40, 4
	for i, c := range []limit.Contract{first, other} {
		l, err := New(Options{Redis: rdb, Namespace: "ns", Name: "provider", Node: fmt.Sprint(i), Limit: specOf(c), Identity: IdentityNone})
		if err != nil {
			t.Fatal(err)
		}
		run(t, l)
		if _, err := l.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := l.State().Settings.Contract; got != first {
			t.Errorf("node %d: got %+v in force, want what Redis holds, %+v", i, got, first)
		}
	}
}

// The monotonic clock of a suspended host stands still. A slot that was asked for
// before is not used afterwards, though it looks fresh.
func TestASlotIsNotUsedAfterASuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: "n", Limit: specOf(contract(300))})
		if err != nil {
			t.Fatal(err)
		}
		l.reserve, l.listen = newModel().local("n", time.Millisecond), func(context.Context) {}
		l.host = &host{suspended: func() time.Duration { return time.Duration(slept.Load()) }}
		run(t, l)
		for _, row := range []struct {
			slept time.Duration
			want  error
		}{{0, nil}, {500 * time.Microsecond, nil}, {2 * time.Millisecond, ErrLate}, {0, nil}, {time.Hour, ErrLate}} {
			s, err := l.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			slept.Add(int64(row.slept))
			if err := s.Wait(t.Context()); !errors.Is(err, row.want) {
				t.Errorf("after a suspension of %v: got %v, want %v", row.slept, err, row.want)
			}
			time.Sleep(time.Second) // what was held then is over
		}
	})
}

// What a node holds was reserved under the terms before. After a cut or a pause it
// is not used.
func TestHeldSlotsAreDroppedAtACut(t *testing.T) {
	for name, change := range map[string]func(*limit.Settings){
		"pause": func(s *limit.Settings) { s.Paused = true },
		"cut":   func(s *limit.Settings) { s.Cap = 10 },
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newModel()
			l := begin(t, contract(300), m.local("n", time.Millisecond), func() int { return 1000 })
			held := func() (all []Slot) {
				l.queue.mu.Lock()
				defer l.queue.mu.Unlock()
				return append(all, l.queue.held...)
			}
			for len(held()) < 3 {
				time.Sleep(time.Millisecond)
			}
			s := m.settings()
			s.Changed, s.Revision = time.Now(), s.Revision+1
			change(&s)
			before := held()
			m.change(s)
			l.changed <- struct{}{}
			time.Sleep(2 * time.Millisecond) // the way to Redis and back
			for _, slot := range held() {
				if slices.Contains(before, slot) {
					t.Errorf("%s: a slot of before is held still, of %d", name, len(before))
					break
				}
			}
		})
	}
}
