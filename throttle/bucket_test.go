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

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/bubbles"
	"dispatcher/throttle/control"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

func refusing(t *testing.T, c limit.Contract, b limit.Bucket, reserve reserveFunc) *Limiter {
	t.Helper()
	spec := specOf(c)
	spec.Algorithm, spec.Bucket = limit.LeakyBucket, b
	l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: "n", Limit: spec})
	if err != nil {
		t.Fatal(err)
	}
	l.reserve = reserve
	l.listen = func(context.Context) {}
	run(t, l)
	return l
}

// pour lets so many jobs come at once, and returns what they got when all of them
// know.
func pour(t *testing.T, l *Limiter, jobs int) (slots []Slot, turnedAway int) {
	t.Helper()
	for jobs > 0 {
		for _, a := range asked(t, l, jobs) {
			switch {
			case errors.Is(a.Err, ErrFull):
				turnedAway++
			case !a.Slot.IsZero():
				slots = append(slots, a.Slot)
			default:
				continue
			}
			jobs--
		}
	}
	return slots, turnedAway
}

// asked waits for the limiter's turn, and asks for so many jobs.
func asked(t *testing.T, l *Limiter, jobs int) []Answer {
	t.Helper()
	if _, err := l.Turn(t.Context(), OneLane, nil); err != nil {
		t.Fatal(err)
	}
	answers, err := l.Reserve(t.Context(), slices.Repeat([]Request{{Cost: 1}}, jobs))
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

// What a full bucket has no room for is refused at once, and not when a slot would
// have come free.
func TestAFullBucketTurnsAwayAtOnce(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		l := refusing(t, contract(300), limit.Bucket{Capacity: 30, WhenFull: limit.FullRefuse}, newModel().local("n", time.Millisecond))
		settled(t, l)
		before := time.Now()
		slots, turnedAway := pour(t, l, 100)
		if took := time.Since(before); took > 2*minGap+3*time.Millisecond {
			t.Errorf("it took %v until all of them knew", took)
		}
		if len(slots)+turnedAway != 100 || len(slots) < 30 || len(slots) > 34 {
			t.Errorf("got %d slots and %d turned away of 100, and the bucket holds 30 and what leaves it meanwhile", len(slots), turnedAway)
		}
		furthest := 30*contract(300).Spacing() + nearest + 10*time.Millisecond
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
	if _, err := callerOf(l, 1).next(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
}

// Of those that come faster than the bucket leaks, it takes as many as leave it.
func TestARefusingBucketTakesItsWholeRate(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		l := refusing(t, contract(300), limit.Bucket{Capacity: 30, WhenFull: limit.FullRefuse}, newModel().local("n", time.Millisecond))
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
	bubbles.Test(t, func(t *testing.T) {
		m := newModel()
		l := refusing(t, contract(300), limit.Bucket{Capacity: 30, WhenFull: limit.FullRefuse}, m.local("n", time.Millisecond))
		settled(t, l)
		s := m.settings()
		s.Paused, s.Changed = true, time.Now()
		m.change(s)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := callerOf(l, 1).next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v while paused, want to wait", err)
		}
	})
}

// The script says that units are short where the bucket is full, and nowhere else.
func TestOnlyAFullBucketIsShortOfUnits(t *testing.T) {
	t.Parallel()
	fill := func(tr *trial) {
		for tr.reserve(0, 100).Schedule.Given > 0 {
		}
	}
	for name, row := range map[string]struct {
		happen func(tr *trial)
		want   script.Shortage
	}{
		"full":   {fill, script.ShortOfUnits},
		"paused": {func(tr *trial) { tr.set(control.Change{Values: parameters.Values{"paused": "true"}}) }, script.ShortOfNothing},
		"a block": {func(tr *trial) {
			blocked := slowTo(tr.c, 0.5, tr.now)
			blocked.Until = tr.now + second.Microseconds()
			tr.slowTo(blocked)
		}, script.ShortOfNothing},
		"a report of a step that waits for a second opinion": {func(tr *trial) {
			tr.since = tr.now
			tr.poll()
			_, err := tr.nodes[0].Reserve(tr.Context(), script.Ask{
				Epoch: tr.epochs[0], Since: tr.since, Read: tr.now, Stepped: true, Learned: true, Identity: string(IdentityNone), Nearest: nearest, Known: tr.known[0],
			})
			if err != nil {
				tr.Fatal(err)
			}
		}, script.ShortOfNothing},
		"a larger max_cost, whose timeline has not begun": {func(tr *trial) {
			fill(tr)
			tr.set(control.Change{Values: parameters.Values{"max_cost": "100"}})
		}, script.ShortOfNothing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, "", algorithm(limit.LeakyBucket), contract(300), 2)
			tr.pass(second.Microseconds())
			row.happen(tr)
			if b := tr.reserve(1, 5); b.Schedule.Given > 0 || b.Short != row.want {
				t.Errorf("got %d units and shortage %d, want none and %d", b.Schedule.Given, b.Short, row.want)
			}
		})
	}
}

// A reservation whose reply was lost comes again with its slots. Units are not short for the others that want some meanwhile: nobody
// has looked.
func TestARepeatedReservationIsNotShortOfUnits(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "", algorithm(limit.LeakyBucket), contract(300), 2)
	tr.pass(second.Microseconds())
	tr.reserve(0, 3)
	for tr.reserve(1, 100).Schedule.Given > 0 {
	}
	if b := tr.ask(0, 10); b.Schedule.Given != 3 || b.Short != script.ShortOfNothing {
		t.Errorf("got %d units again and shortage %d, want 3 and none", b.Schedule.Given, b.Short)
	}
	if b := tr.reserve(0, 10); b.Schedule.Given != 0 || b.Short != script.ShortOfUnits {
		t.Errorf("got %d units and shortage %d by the next reservation, want none and %d", b.Schedule.Given, b.Short, script.ShortOfUnits)
	}
}

// A job that was let in and was late waits for another slot, whatever comes before it.
func TestAFullBucketDoesNotTurnAwayWhoWasLetIn(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		l := refusing(t, contract(300), limit.Bucket{Capacity: 6, WhenFull: limit.FullRefuse}, newModel().local("n", time.Millisecond))
		settled(t, l)
		var again sync.WaitGroup
		for range 20 {
			again.Go(func() {
				if s, err := l.Again(t.Context(), Request{Cost: 1}); err != nil || s.IsZero() {
					t.Errorf("got slot %v and %v for a job that was let in", s, err)
				}
			})
		}
		_, turnedAway := pour(t, l, 20)
		again.Wait()
		if turnedAway == 0 {
			t.Error("the bucket had room for all, which proves nothing")
		}
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

// A reply that was lost comes again with the slots of the first try. Those who came
// since are not turned away for it: the bucket may have room for them.
func TestALostReplyRefusesNobody(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		reserve, lose := newModel().local("n", time.Millisecond), atomic.Bool{}
		l := refusing(t, contract(300), limit.Bucket{Capacity: 30, WhenFull: limit.FullRefuse}, func(ctx context.Context, a script.Ask) (script.Reservation, error) {
			b, err := reserve(ctx, a)
			if b.Schedule.Given > 0 && lose.CompareAndSwap(true, false) {
				return script.Reservation{}, errors.New("connection reset")
			}
			return b, err
		})
		settled(t, l)
		lose.Store(true)
		for _, a := range asked(t, l, 5) {
			if !a.Slot.IsZero() || a.Err != nil {
				t.Errorf("got %v and %v after a reply that was lost", a.Slot, a.Err)
			}
		}
		time.Sleep(10 * time.Millisecond)
		slots, away := pour(t, l, 15)
		if away != 0 || len(slots) != 15 {
			t.Errorf("got %d slots and %d turned away; the bucket had room for all 15", len(slots), away)
		}
	})
}
