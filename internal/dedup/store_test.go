package dedup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func mustClaim(t testing.TB, e *Entry, by time.Time, want Standing) Answer {
	t.Helper()
	a, err := e.Claim(t.Context(), by)
	if err != nil || a.Standing != want {
		t.Fatalf("got %v and %v, want %v", a.Standing, err, want)
	}
	return a
}

func TestAClaimIsAnsweredBeforeItIsNeeded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t bubble) {
		l, s := t.l, t.s
		s.slow = 300 * time.Microsecond
		for i, ahead := range []time.Duration{0, 2 * time.Millisecond, 5 * time.Millisecond, time.Second} {
			began := time.Now()
			a := mustClaim(t, l.Open(fmt.Sprint(i)), began.Add(ahead), Granted)
			took := time.Since(began)
			if most := max(ahead, s.slow); took > most || took > gather+s.slow {
				t.Errorf("needed in %v: answered after %v", ahead, took)
			}
			if usable := a.UseBy.At.Sub(began); usable < l.margin || usable > l.margin+took {
				t.Errorf("may be used for %v, want the margin from when it was asked", usable)
			}
		}
	})
}

// At a steady 300 a second, with slots that are known 8 ms ahead, three jobs
// share a call, and their dones go with it.
func TestJobsShareCalls(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t bubble) {
		l, s := t.l, t.s
		var jobs sync.WaitGroup
		const n = 600
		for i := range n {
			slot := time.Now().Add(8 * time.Millisecond)
			jobs.Go(func() {
				e := l.Open(fmt.Sprint(i))
				mustClaim(t, e, slot, Granted)
				time.Sleep(50 * time.Millisecond)
				var settled sync.WaitGroup
				settled.Add(1)
				e.Done(t.Context(), 1, func(error) { settled.Done() })
				settled.Wait()
			})
			time.Sleep(3366 * time.Microsecond)
		}
		jobs.Wait()
		if perJob := float64(len(s.verbs())) / n; perJob > 0.5 {
			t.Errorf("got %.2f calls a job, want at most 0.5", perJob)
		}
	})
}

func TestABatchHasABound(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t bubble) {
		l, s := t.l, t.s
		var settled sync.WaitGroup
		s.set(func() { s.slow = time.Millisecond })
		for i := range 1000 {
			settled.Add(1)
			l.Open(fmt.Sprint(i)).Done(t.Context(), 1, func(err error) {
				if err != nil {
					t.Error(err)
				}
				settled.Done()
			})
		}
		settled.Wait()
		for _, call := range s.verbs() {
			if n := len(strings.Fields(call)); n > mostEntries {
				t.Errorf("got %d entries in a call, want at most %d", n, mostEntries)
			}
		}
	})
}

// While Redis is away nothing is granted, a done waits, and nothing is settled;
// when it is back, both go on by themselves.
func TestNothingIsGrantedOrSettledWithoutRedis(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t bubble) {
		l, s := t.l, t.s
		sent, waits := l.Open("sent"), l.Open("waits")
		mustClaim(t, sent, time.Time{}, Granted)
		s.set(func() { s.away = true })
		back := time.Now().Add(time.Minute)
		var settled time.Time
		sent.Done(t.Context(), 1, func(err error) {
			settled = time.Now()
			if err != nil {
				t.Error(err)
			}
		})
		time.AfterFunc(time.Minute, func() { s.set(func() { s.away = false }) })
		time.AfterFunc(time.Second, func() {
			if err := l.Ready(); !errors.Is(err, errAway) {
				t.Errorf("got %v, want what is wrong", err)
			}
		})
		mustClaim(t, waits, time.Time{}, Granted)
		if at := time.Now(); at.Before(back) || at.Sub(back) > retryMost || settled.Before(back) {
			t.Errorf("granted %v and settled %v after Redis was back", at.Sub(back), settled.Sub(back))
		}
		if err := l.Ready(); err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(s.times); n > 70*10 {
			t.Errorf("asked %d times in a minute", n)
		}
	})
}

// A node whose jobs have all gone while Redis was away is ready again when Redis is back, and asks no more then.
func TestAStoreWithoutJobsIsReadyAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t bubble) {
		l, s := t.l, t.s
		s.set(func() { s.away = true })
		ctx, revoke := context.WithCancel(t.Context())
		l.Open("job").Done(ctx, 1, func(error) {})
		revoke()
		time.Sleep(time.Minute)
		if err := l.Ready(); !errors.Is(err, errAway) {
			t.Errorf("got %v while Redis is away, want what is wrong", err)
		}
		s.set(func() { s.away = false })
		time.Sleep(retryMost)
		if err := l.Ready(); err != nil {
			t.Errorf("got %v after Redis was back, want none", err)
		}
		asked := len(s.verbs())
		time.Sleep(time.Minute)
		if got := len(s.verbs()); got != asked {
			t.Errorf("got %d calls without jobs, want none", got-asked)
		}
	})
}

// A call whose reply was lost is repeated as it was, before anything else.
func TestALostReplyIsAskedForAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t bubble) {
		l, s := t.l, t.s
		s.set(func() { s.deaf = true })
		time.AfterFunc(100*time.Millisecond, func() { s.set(func() { s.deaf = false }) })
		mustClaim(t, l.Open("job"), time.Time{}, Granted)
		s.mu.Lock()
		defer s.mu.Unlock()
		first := s.batches[0][0]
		for _, batch := range s.batches {
			if len(batch) != 1 || batch[0] != first {
				t.Errorf("got %+v after %+v", batch, first)
			}
		}
		if len(s.batches) < 2 {
			t.Error("the reply was not lost")
		}
	})
}

// A done is given up only when Redis did not answer after the job was taken
// away.
func TestADoneIsTriedOnceMoreWhenTheJobIsTakenAway(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		inBubble(t, func(t bubble) {
			l, s := t.l, t.s
			s.set(func() { s.away = true })
			ctx, revoke := context.WithCancel(t.Context())
			got := make(chan error, 1)
			l.Open("job").Done(ctx, 1, func(err error) { got <- err })
			time.Sleep(time.Hour)
			s.set(func() { s.away = away })
			select {
			case err := <-got:
				t.Fatalf("got %v after an hour without Redis, want none", err)
			default:
			}
			revoked := time.Now()
			revoke()
			err := <-got
			if took := time.Since(revoked); took > callTimeout {
				t.Errorf("said so after %v", took)
			}
			if away != errors.Is(err, ErrUnacknowledged) || !away && err != nil {
				t.Errorf("away %v: got %v", away, err)
			}
		})
	}
}

// A claim whose caller is gone is released, whether or not it had reached Redis.
func TestAClaimThatIsGivenUpIsReleased(t *testing.T) {
	t.Parallel()
	for _, deaf := range []bool{false, true} {
		inBubble(t, func(t bubble) {
			l, s := t.l, t.s
			s.set(func() { s.deaf, s.away = deaf, !deaf })
			ctx, revoke := context.WithCancelCause(t.Context())
			taken := errors.New("taken away")
			time.AfterFunc(time.Second, func() { revoke(taken) })
			if _, err := l.Open("job").Claim(ctx, time.Time{}); !errors.Is(err, taken) {
				t.Errorf("got %v, want the cause", err)
			}
			s.set(func() { s.deaf, s.away = false, false })
			time.Sleep(time.Second)
			mustClaim(t, l.Open("job"), time.Time{}, Granted)
			if !slices.Contains(s.verbs(), "release") {
				t.Errorf("got %q", s.verbs())
			}
		})
	}
}

// Only one of two deliveries on one node is granted the job.
func TestTwoDeliveriesOnOneNodeAreTwo(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t bubble) {
		l := t.l
		one, two := l.Open("job"), l.Open("job")
		mustClaim(t, one, time.Time{}, Granted)
		if a := mustClaim(t, two, time.Time{}, Busy); a.Wait != time.Second {
			t.Errorf("got a wait of %v, want 1s", a.Wait)
		}
		one.Release()
		mustClaim(t, two, time.Time{}, Granted)
		var wait sync.WaitGroup
		wait.Add(1)
		two.Done(t.Context(), 200, func(error) { wait.Done() })
		wait.Wait()
		if a := mustClaim(t, one, time.Time{}, Sent); a.Outcome != 200 {
			t.Errorf("got outcome %d, want 200", a.Outcome)
		}
		if a, err := l.Peek(t.Context(), "job"); err != nil || a.Standing != Sent {
			t.Errorf("got %v and %v, want sent", a.Standing, err)
		}
	})
}

// A claim is asked for once while it can be used, and again when its time is
// over or it was used.
func TestAClaimIsUsedUntilItsTimeIsOver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t bubble) {
		l, s := t.l, t.s
		e := l.Open("job")
		var suspended atomic.Int64 // nanoseconds
		l.suspended = func() time.Duration { return time.Duration(suspended.Load()) }
		for i, step := range []struct {
			do    func()
			calls int
		}{
			{func() {}, 1},
			{func() {}, 1},
			{func() { time.Sleep(l.margin * 3 / 4) }, 2},
			{func() { e.Unknown() }, 3},
			{func() { time.Sleep(2 * l.margin) }, 4},
			{func() { suspended.Add(int64(time.Minute)) }, 5}, // of the host: another node may have taken the job over
			{func() {}, 5},
		} {
			step.do()
			if a := mustClaim(t, e, time.Time{}, Granted); !a.UseBy.At.After(time.Now()) {
				t.Errorf("step %d: may be used until %v ago", i, time.Since(a.UseBy.At))
			}
			if got := len(s.verbs()); got != step.calls {
				t.Errorf("step %d: got %d calls, want %d", i, got, step.calls)
			}
		}
		e.Release()
		time.Sleep(time.Second)
		if slices.Contains(s.verbs(), "release") {
			t.Error("a claim was released though a call of the job is unknown")
		}
	})
}

// Entries that were queued before the node ends still reach Redis. Later ones get an
// error.
func TestTheEndWaitsForQueuedEntries(t *testing.T) {
	t.Parallel()
	var l *Store
	synctest.Test(t, func(t *testing.T) {
		onServer(t, func(t bubble) {
			l = t.l
			for i := range 100 {
				l.Open(fmt.Sprint(i)).Done(t.Context(), 1, func(err error) {
					if err != nil {
						t.Error(err)
					}
				})
			}
			t.Cleanup(func() {
				if got := len(t.s.jobs); got != 100 {
					t.Errorf("got %d of 100 jobs", got)
				}
			})
		})
		if _, err := l.Open("job").Claim(t.Context(), time.Time{}); !errors.Is(err, ErrClosed) {
			t.Errorf("claim: got %v, want that it is closed", err)
		}
		l.Open("job").Done(t.Context(), 1, func(err error) {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("done: got %v, want that it is closed", err)
			}
		})
	})
}

func TestOptionsAreRefused(t *testing.T) {
	t.Parallel()
	good := Options{Redis: nobody{}, Namespace: "ns", CallTimeout: 5 * time.Second}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		field string
		edit  func(*Options)
	}{
		{"Redis", func(o *Options) { o.Redis = nil }},
		{"namespace", func(o *Options) { o.Namespace = "" }},
		{"namespace", func(o *Options) { o.Namespace = "a}b" }},
		{"window", func(o *Options) { o.Window = time.Second }},
		{"window", func(o *Options) { o.Window = 1000 * time.Hour }},
		{"call timeout", func(o *Options) { o.CallTimeout = 0 }},
		{"window", func(o *Options) { o.CallTimeout = 3 * time.Hour }},
		{"margin", func(o *Options) { o.Margin = time.Millisecond }},
		{"margin", func(o *Options) { o.Margin = 2 * time.Minute }},
	} {
		o := good
		tc.edit(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), tc.field) {
			t.Errorf("got %v, want a refusal of %s", err, tc.field)
		}
	}
}
