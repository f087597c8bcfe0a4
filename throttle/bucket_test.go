package throttle

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

func refusing(t *testing.T, c limit.Contract, b limit.Bucket, reserve reserveFunc, waiting func() int) *Limiter {
	t.Helper()
	spec := specOf(c)
	spec.Algorithm, spec.Bucket = limit.LeakyBucket, b
	l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: "n", Limit: spec, Waiting: waiting})
	if err != nil {
		t.Fatal(err)
	}
	l.reserve = reserve
	l.listen = func(context.Context) {}
	run(t, l)
	return l
}

// pour lets so many callers come at once, and returns what they got when all of
// them know.
func pour(t *testing.T, l *Limiter, callers int) (slots []Slot, turnedAway int) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			s, err := l.Next(t.Context())
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, ErrFull):
				turnedAway++
			case err != nil:
				t.Error(err)
			default:
				slots = append(slots, s)
			}
		})
	}
	all.Wait()
	return slots, turnedAway
}

// What a full bucket has no room for is refused at once, and not when a slot would
// have come free.
func TestAFullBucketTurnsAwayAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := refusing(t, contract(300), limit.Bucket{Capacity: 30, WhenFull: limit.FullRefuse}, newModel().local("n", time.Millisecond), nil)
		settled(t, l)
		before := time.Now()
		slots, turnedAway := pour(t, l, 100)
		if took := time.Since(before); took > 2*minGap+3*time.Millisecond {
			t.Errorf("it took %v until all of them knew", took)
		}
		if len(slots)+turnedAway != 100 || len(slots) < 30 || len(slots) > 34 {
			t.Errorf("got %d slots and %d turned away of 100, and the bucket holds 30 and what leaves it meanwhile", len(slots), turnedAway)
		}
		furthest := 30*contract(300).Spacing() + lead + 10*time.Millisecond
		for _, s := range slots {
			if ahead := s.NotBefore.Sub(before); ahead > furthest {
				t.Errorf("got a slot %v ahead, and a full bucket is empty in %v", ahead, furthest)
			}
		}
	})
}

// settled waits until the limiter gives what it may, and lets the bucket run empty.
func settled(t *testing.T, l *Limiter) {
	t.Helper()
	time.Sleep(time.Second)
	if _, err := l.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
}

// Of those that come faster than the bucket leaks, it takes as many as leave it.
func TestARefusingBucketTakesItsWholeRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := refusing(t, contract(300), limit.Bucket{Capacity: 30, WhenFull: limit.FullRefuse}, newModel().local("n", time.Millisecond), nil)
		settled(t, l)
		taken := 0
		const seconds = 10
		for range seconds * 100 { // three times the rate
			slots, _ := pour(t, l, 9)
			taken += len(slots)
			time.Sleep(10 * time.Millisecond)
		}
		if want := 290 * seconds; taken < want {
			t.Errorf("got %d slots in %d s, want at least %d", taken, seconds, want)
		}
	})
}

// A limit that gives nothing because it is paused lets its callers wait: they
// are not to be lost with that.
func TestAPauseTurnsNobodyAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel()
		l := refusing(t, contract(300), limit.Bucket{Capacity: 30, WhenFull: limit.FullRefuse}, m.local("n", time.Millisecond), nil)
		settled(t, l)
		s := m.settings()
		s.Paused, s.Changed = true, time.Now()
		m.change(s)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := l.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v while paused, want to wait", err)
		}
	})
}

// Who was let in and was late gets another slot, whatever waits before it.
func TestAFullBucketDoesNotTurnAwayWhoWasLetIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := refusing(t, contract(300), limit.Bucket{Capacity: 6, WhenFull: limit.FullRefuse}, newModel().local("n", time.Millisecond), nil)
		settled(t, l)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { _, _ = l.Next(t.Context()) })
			all.Go(func() {
				if _, err := l.Again(t.Context()); err != nil {
					t.Errorf("got %v for a job that was let in", err)
				}
			})
		}
		all.Wait()
	})
}

// Refusals that wait for jobs which don't come stand in nobody's way.
func TestHeldRefusalsStopNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var phantoms atomic.Int64
		l := refusing(t, contract(300), limit.Bucket{Capacity: 6, WhenFull: limit.FullRefuse}, newModel().local("n", time.Millisecond),
			func() int { return int(phantoms.Load()) })
		settled(t, l)
		phantoms.Store(100)
		if _, err := l.Next(t.Context()); err != nil { // and with it all those
			t.Fatal(err)
		}
		phantoms.Store(0)
		time.Sleep(time.Second) // what was given to them is late
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := l.Again(ctx); err != nil {
				t.Errorf("again: %v", err)
			}
		})
		both.Go(func() {
			if _, err := l.Next(ctx); err != nil { // the refusals were for others, and the bucket is empty
				t.Errorf("next: %v", err)
			}
		})
		both.Wait()
	})
}

func TestABucketRefusesWhatItCannotHonour(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"capacity: 5: is for algorithm leaky_bucket only":                    (limit.Bucket{Capacity: 5}).Validate("token_bucket", contract(300)),
		"when_full: \"refuse\": is for algorithm leaky_bucket only":          (limit.Bucket{WhenFull: limit.FullRefuse}).Validate("gcra", contract(300)),
		"when_full: \"explode\": must be one of wait, refuse":                (limit.Bucket{WhenFull: "explode"}).Validate("leaky_bucket", contract(300)),
		"capacity: 300: takes 1.01s to run empty":                            (limit.Bucket{Capacity: 300}).Validate("leaky_bucket", contract(300)),
		"capacity: 5: runs empty in 16.834ms, and nodes need 20ms":           (limit.Bucket{Capacity: 5}).Validate("leaky_bucket", contract(300)),
		"must be at least 6 at this rate":                                    (limit.Bucket{Capacity: 5}).Validate("leaky_bucket", contract(300)),
		"capacity: -1: must be from 0 to":                                    (limit.Bucket{Capacity: -1}).Validate("leaky_bucket", contract(300)),
		"capacity: 1: takes 10.001667s to run empty, and slots are reserved": (limit.Bucket{Capacity: 1}).Validate("leaky_bucket", contractOf(6, time.Minute)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := (limit.Bucket{Capacity: 6, WhenFull: limit.FullRefuse}).Validate("leaky_bucket", contract(300)); err != nil {
		t.Errorf("got %v for the least capacity there is", err)
	}
}

func contractOf(units int64, window time.Duration) limit.Contract {
	c := contract(units)
	c.Window = window
	return c
}

// A reply that was lost comes again with the slots of the first try. Those who
// came since are not turned away for it: the bucket has room for them.
func TestALostReplyRefusesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reserve, lose := newModel().local("n", time.Millisecond), atomic.Bool{}
		l := refusing(t, contract(300), limit.Bucket{Capacity: 30, WhenFull: limit.FullRefuse}, func(ctx context.Context, a script.Ask) (script.Reservation, error) {
			b, err := reserve(ctx, a)
			if b.Schedule.Given > 0 && lose.CompareAndSwap(true, false) {
				return script.Reservation{}, errors.New("connection reset")
			}
			return b, err
		}, nil)
		settled(t, l)
		lose.Store(true)
		var first sync.WaitGroup
		turned := 0
		first.Go(func() { _, turned = pour(t, l, 5) })
		time.Sleep(10 * time.Millisecond)
		if lose.Load() {
			t.Fatal("no reply was lost yet")
		}
		slots, away := pour(t, l, 10)
		first.Wait()
		if away != 0 || turned != 0 || len(slots) != 10 {
			t.Errorf("got %d slots, and %d and %d turned away; the bucket had room for all 15", len(slots), away, turned)
		}
	})
}
