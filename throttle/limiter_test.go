package throttle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/bubbles"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/phase"
)

func contract(units int64) limit.Contract {
	return limit.Contract{Cap: units, Window: time.Second, Burst: 1, Guard: limit.DefaultGuard, Lateness: limit.DefaultLateness, Horizon: limit.DefaultHorizon}
}

// late is such a contract for a node with a real clock and an embedded Redis, which takes milliseconds for a
// script under the race detector.
func late(units int64) limit.Contract {
	c := contract(units)
	c.Guard, c.Lateness = 100*time.Millisecond, 30*time.Millisecond
	return c
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
func begin(t *testing.T, c limit.Contract, reserve reserveFunc) *Limiter {
	t.Helper()
	return beginBy(t, limit.DefaultAlgorithm, c, reserve)
}

func beginBy(t *testing.T, algorithm string, c limit.Contract, reserve reserveFunc) *Limiter {
	t.Helper()
	spec := specOf(c)
	spec.Algorithm = algorithm
	l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: "n", Limit: spec})
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
	bubbles.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		reserve := newModel().local("n", time.Millisecond)
		l := begin(t, contract(300), func(ctx context.Context, a script.Ask) (script.Reservation, error) {
			calls.Add(1)
			return reserve(ctx, a)
		})
		const n = 600
		var first, last time.Time
		c := callerOf(l, 1000)
		for i := range n {
			s, err := c.next(t.Context())
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

// A caller that leaves before its turn leaves the next one nothing to wait for.
func TestATurnThatIsLeftHoldsUpNobody(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		l := begin(t, contract(1), newModel().local("n", time.Millisecond))
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the node drains")
		time.AfterFunc(100*time.Millisecond, func() { cancel(gone) }) // in the cooldown
		if _, err := l.Turn(ctx, OneLane, nil); !errors.Is(err, gone) {
			t.Errorf("got %v, want the cause %v", err, gone)
		}
		if _, err := l.Reserve(ctx, []Request{{Cost: 1}}); !errors.Is(err, gone) {
			t.Errorf("got %v, want the cause %v", err, gone)
		}
		if s, err := callerOf(l, 1).next(t.Context()); err != nil || s.IsZero() {
			t.Errorf("got slot %v and %v for the next caller", s, err)
		}
	})
}

// Who asks again is in the next reservation, ahead of the others, also where nobody else
// asks.
func TestAgainComesFirst(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		l := begin(t, contract(10), newModel().local("n", time.Millisecond))
		time.Sleep(2 * time.Second) // past the start
		alone, err := l.Again(t.Context(), Request{Cost: 1})
		if err != nil || alone.IsZero() {
			t.Fatalf("got slot %v and %v", alone, err)
		}
		got := make(chan Slot, 1)
		go func() {
			s, _ := l.Again(t.Context(), Request{Cost: 1})
			got <- s
		}()
		synctest.Wait()
		var others []Slot
		for len(others) == 0 {
			for _, a := range asked(t, l, 2) {
				if !a.Slot.IsZero() {
					others = append(others, a.Slot)
				}
			}
		}
		if first := <-got; !first.NotBefore.Before(others[0].NotBefore) {
			t.Errorf("who asks again got a slot %v behind the others", first.NotBefore.Sub(others[0].NotBefore))
		}
	})
}

// While the limit is paused nobody gets a turn: no connection is opened for a job.
func TestAPauseGivesNoTurn(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		m := newModel()
		l := begin(t, contract(300), m.local("n", time.Millisecond))
		time.Sleep(2 * time.Second)
		s := m.settings()
		s.Changed, s.Revision, s.Paused = time.Now(), s.Revision+1, true
		m.change(s)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.Turn(ctx, OneLane, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got a turn, or %v, while paused", err)
		}
	})
}

// Jobs that ask again are let go when the limit is paused, and while Redis is away: they are
// not to keep their workers.
func TestWhoAsksAgainIsLetGoWhenNothingIsGranted(t *testing.T) {
	for name, stop := range map[string]func(m *model, away *atomic.Bool){
		"a pause": func(m *model, _ *atomic.Bool) {
			s := m.settings()
			s.Changed, s.Revision, s.Paused = time.Now(), s.Revision+1, true
			m.change(s)
		},
		"Redis is away": func(_ *model, away *atomic.Bool) { away.Store(true) },
	} {
		bubbles.Test(t, func(t *testing.T) {
			m, away := newModel(), atomic.Bool{}
			reserve := m.local("n", time.Millisecond)
			l := begin(t, contractOf(1, 10*time.Second), func(ctx context.Context, a script.Ask) (script.Reservation, error) {
				if away.Load() {
					return script.Reservation{}, errors.New("connection refused")
				}
				return reserve(ctx, a)
			})
			time.Sleep(time.Minute) // past the start
			if _, err := l.Again(t.Context(), Request{Cost: 1}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			begun := time.Now()
			time.AfterFunc(time.Second, func() { stop(m, &away) })
			if _, err := l.Again(t.Context(), Request{Cost: 1}); !errors.Is(err, ErrGivenUp) || time.Since(begun) > 8*time.Second {
				t.Errorf("%s: got %v after %v, want %v", name, err, time.Since(begun), ErrGivenUp)
			}
		})
	}
}

// A pause that ends by itself is over for the node when it is over in Redis, however seldom
// the node polls: the script ends it with the first call after that.
func TestANodePollsAtTheEndOfAPause(t *testing.T) {
	t.Parallel()
	l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: "n", Limit: specOf(contract(300))})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, row := range []struct {
		left, poll, want time.Duration
	}{{300 * time.Millisecond, 4 * time.Second, 301 * time.Millisecond}, {time.Hour, 4 * time.Second, 4 * time.Second}, {time.Second, 0, 1001 * time.Millisecond}} {
		r := &reserver{Limiter: l, lanes: make([]lane, 1)}
		set := seeded(contract(300))
		set.Paused, set.RevertAt = true, time.UnixMicro(5_000_000).Add(row.left)
		r.report(script.Reservation{Now: 5_000_000, Poll: row.poll, Settings: set}, now, false)
		if got := r.pollAt.Sub(now); got != row.want {
			t.Errorf("%v before the end of a pause: got a poll in %v, want it in %v", row.left, got, row.want)
		}
	}
}

// A change that stops all calls for longer than usual has a phase of its own, which names its end.
func TestAChangeThatStopsAllCallsHasAPhase(t *testing.T) {
	t.Parallel()
	const redisNow = 1_700_000_000_000_000
	now := time.Now()
	for begins, want := range map[time.Duration]phase.Phase{-time.Hour: phase.Running, time.Second: phase.Running, 90 * time.Minute: phase.Changing} {
		l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: "n", Limit: specOf(contract(300))})
		if err != nil {
			t.Fatal(err)
		}
		s := seeded(contract(300))
		s.By, s.Began = "bob", limit.FromMicros(redisNow+begins.Microseconds())
		r := &reserver{Limiter: l, lanes: make([]lane, 1), known: s, learned: true, kind: algorithm(limit.TokenBucket)}
		r.observe(clock.Reading{Asked: now, Answered: now, Now: redisNow, Epoch: 1})
		r.report(script.Reservation{Now: redisNow, Settings: s}, now, false)
		got := l.State()
		if got.Phase != want || got.Ready() != nil || want == phase.Changing && !got.Until.Equal(now.Add(begins)) {
			t.Errorf("new settings that begin %v from now: got phase %s until %v (%v), want %s", begins, got.Phase, got.Until, got.Ready(), want)
		}
	}
}

// A node says where its file differs from Redis: each setting, no other, and how to end the difference.
func TestANodeSaysWhereItsFileDiffers(t *testing.T) {
	t.Parallel()
	const change, restart = `remedy="change the file, or use limit set"`, `remedy="change the file, or stop the fleet and delete the limit"`
	auto := contract(300)
	auto.Spread = 7 * time.Millisecond
	auto = auto.WithLateness(3 * time.Millisecond)
	for want, c := range map[string]struct {
		file  limit.Contract
		redis func(*limit.Settings)
	}{
		"": {contract(300), func(s *limit.Settings) { s.Paused, s.MaxCap = true, 400 }},
		`cap="150, and 300 in the file" ` + change:                                          {contract(300), func(s *limit.Settings) { s.Cap = 150 }},
		`ignore_throttled="true, and false in the file" ` + change:                          {contract(300), func(s *limit.Settings) { s.IgnoreThrottled = true }},
		`weights="acme=5, and none in the file" ` + change:                                  {contract(300), func(s *limit.Settings) { s.Weights = "acme=5" }},
		`max_nodes="8, and 0 in the file" ` + restart:                                       {contract(300), func(s *limit.Settings) { s.MaxNodes = 8 }},
		`guard="10ms, and auto in the file" lateness="3ms, and auto in the file" ` + change: {auto, func(s *limit.Settings) { s.Auto = false }},
	} {
		var log bytes.Buffer
		l, err := New(Options{
			Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: "n", Limit: specOf(c.file),
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		if err != nil {
			t.Fatal(err)
		}
		s := seeded(c.file)
		c.redis(&s)
		l.learn(s, true)
		_, got, _ := strings.Cut(strings.TrimSpace(log.String()), "in force\" limit=provider ")
		if got != want || (log.Len() > 0) != (want != "") {
			t.Errorf("got the warning %q, want one that ends with %q", log.String(), want)
		}
	}
}

// Each job has an answer in its place, and slots rise.
func TestEachJobIsAnsweredInOrder(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		l := begin(t, contract(10), newModel().local("n", time.Millisecond))
		time.Sleep(2 * time.Second) // past the start
		const jobs = 20
		answers, err := l.Reserve(t.Context(), slices.Repeat([]Request{{Cost: 1}}, jobs))
		if err != nil || len(answers) != jobs {
			t.Fatalf("got %d answers and %v, want %d", len(answers), err, jobs)
		}
		granted := 0
		for i, a := range answers {
			if a.Err != nil {
				t.Errorf("job %d: %v", i, a.Err)
			}
			if a.Slot.IsZero() {
				continue
			}
			if granted != i || i > 0 && !a.Slot.NotBefore.After(answers[i-1].Slot.NotBefore) {
				t.Errorf("job %d has a slot out of order", i)
			}
			granted++
		}
		if want := int(limit.DefaultHorizon / contract(10).Spacing()); granted < want || granted > want+1 {
			t.Errorf("got %d slots for %d jobs, want those of one horizon, %d", granted, jobs, want)
		}
	})
}

// A reply that is lost costs no slot: the next call asks under the same number.
func TestLostReplyIsAskedForAgain(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
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
		})
		c := callerOf(l, 1)
		before, _ := c.next(t.Context())
		after, _ := c.next(t.Context())
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
	bubbles.Test(t, func(t *testing.T) {
		var back atomic.Bool
		reserve := newModel().local("n", time.Millisecond)
		l := begin(t, contract(10), func(ctx context.Context, a script.Ask) (script.Reservation, error) {
			if !back.Load() {
				return script.Reservation{}, errors.New("connection refused")
			}
			return reserve(ctx, a)
		})
		time.AfterFunc(time.Minute, func() { back.Store(true) })
		time.AfterFunc(30*time.Second, func() {
			if err := l.State().Ready(); err == nil {
				t.Error("ready while Redis is away")
			}
		})
		start := time.Now()
		if _, err := callerOf(l, 1).next(t.Context()); err != nil {
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
	bubbles.Test(t, func(t *testing.T) {
		var rtt atomic.Int64
		rtt.Store(int64(50 * time.Millisecond))
		m := newModel()
		l := begin(t, contract(10), func(ctx context.Context, a script.Ask) (script.Reservation, error) {
			return m.local("n", time.Duration(rtt.Load()))(ctx, a)
		})
		time.Sleep(5 * time.Second)
		if got := l.State().Phase; got != phase.TooSlow {
			t.Errorf("got phase %v, want %v", got, phase.TooSlow)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := l.Again(ctx, Request{Cost: 1}); !errors.Is(err, ErrGivenUp) {
			t.Errorf("got %v for a job that missed its slot, want %v: nothing is granted", err, ErrGivenUp)
		}
		rtt.Store(int64(time.Millisecond))
		time.Sleep(time.Second)
		rtt.Store(int64(50 * time.Millisecond))
		c := callerOf(l, 1)
		for range 20 {
			s, err := c.next(t.Context())
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
	bubbles.Test(t, func(t *testing.T) {
		m := newModel()
		l := begin(t, contract(300), m.local("n", time.Millisecond))
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
	first, other := late(300), contract(100)
	first.MaxCost = 3
	other.Guard, other.Lateness, other.Reserve, other.MaxNodes = 30*time.Millisecond, 20*time.Millisecond, 40, 4
	for i, c := range []limit.Contract{first, other} {
		l, err := New(Options{Redis: rdb, Namespace: "ns", Name: "provider", Node: fmt.Sprint(i), Limit: specOf(c), Identity: IdentityNone})
		if err != nil {
			t.Fatal(err)
		}
		run(t, l)
		if _, err := callerOf(l, 1).next(t.Context()); err != nil {
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
	bubbles.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: "n", Limit: specOf(contract(300))})
		if err != nil {
			t.Fatal(err)
		}
		l.reserve, l.listen = newModel().local("n", time.Millisecond), func(context.Context) {}
		suspended := func() time.Duration { return time.Duration(slept.Load()) }
		l.slots = slots.NewValidity(suspended, suspended)
		run(t, l)
		c := callerOf(l, 1)
		for _, row := range []struct {
			slept time.Duration
			want  error
		}{{0, nil}, {500 * time.Microsecond, nil}, {2 * time.Millisecond, ErrLate}, {0, nil}, {time.Hour, ErrLate}} {
			s, err := c.next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			slept.Add(int64(row.slept))
			if over := s.Deadline(s.NotAfter).Over(time.Now(), suspended); over != (row.want != nil) {
				t.Errorf("after a suspension of %v: the write's deadline is over: %v", row.slept, over)
			}
			if err := s.Wait(t.Context()); !errors.Is(err, row.want) {
				t.Errorf("after a suspension of %v: got %v, want %v", row.slept, err, row.want)
			}
		}
	})
}

// What a node holds was reserved under the terms before. After a cut or a pause it
// is not used. A longer guard is neither: without those slots all calls would stop for as long as the slots reach ahead.
func TestSlotsAreGivenUpAtACut(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*limit.Settings)
		want   error
	}{
		"pause": {func(s *limit.Settings) { s.Paused = true }, ErrGivenUp},
		"cut":   {func(s *limit.Settings) { s.Cap = 10 }, ErrGivenUp},
		"a longer guard": {func(s *limit.Settings) {
			s.Guard, s.Lateness = s.Guard+20*time.Millisecond, s.Lateness+20*time.Millisecond
		}, nil},
		"a raise": {func(s *limit.Settings) { s.Cap *= 2 }, nil},
	} {
		bubbles.Test(t, func(t *testing.T) {
			m := newModel()
			l := begin(t, contract(300), m.local("n", time.Millisecond))
			time.Sleep(2 * time.Second) // past the start
			held := asked(t, l, 6)      // a block
			s := m.settings()
			s.Changed, s.Revision = time.Now(), s.Revision+1
			row.change(&s)
			for _, a := range held {
				if a.Slot.OverAt(time.Now()) {
					t.Fatalf("%s: a slot is over before the change", name)
				}
			}
			m.change(s)
			l.changed <- struct{}{}
			time.Sleep(2 * time.Millisecond) // the way to Redis and back
			for _, a := range held {
				if err := a.Slot.Wait(t.Context()); !errors.Is(err, row.want) {
					t.Errorf("%s: got %v for a slot of before, want %v", name, err, row.want)
				}
			}
			if got := l.State().Settings; got.Revision != s.Revision {
				t.Errorf("%s: got revision %d in force, want %d", name, got.Revision, s.Revision)
			}
		})
	}
}
