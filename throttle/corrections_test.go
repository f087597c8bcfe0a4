package throttle

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// A job that missed its slot names its units with the next call, and makes that call at once,
// where the algorithm grants them again. Elsewhere it waits for its time, and names nothing.
func TestAJobAsksAtOnceForUnitsThatItDidNotUse(t *testing.T) {
	for _, row := range []struct {
		algorithm string
		within    time.Duration
		units     int64 // that are named
	}{
		{limit.SlidingWindowLog, 10 * time.Millisecond, 5},
		{limit.GCRA, 2 * time.Second, 0},
	} {
		t.Run(row.algorithm, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := contract(300)
				c.MaxCost, c.Burst = 6, 1
				if row.algorithm == limit.GCRA {
					c.Burst = 6
				}
				named, full := int64(0), false
				reserve := func(_ context.Context, a script.Ask) (script.Reservation, error) {
					now := time.Now().UnixMicro()
					b := script.Reservation{Now: now, Epoch: 7, Settings: a.Known, Poll: 4 * time.Second, Schedule: clock.Schedule{Base: now, Floor: now, Units: 1, Period: 1}}
					for _, u := range a.Corrections {
						named, full = named+u.Units, false
					}
					if a.Want > 0 && full {
						b.Wait, full = time.Second, false
					} else if a.Want > 0 {
						b.Schedule.Given, b.Schedule.Debt, full = 5, 5, true
					}
					if a.Want > 0 {
						b.Choice = &script.Choice{}
					}
					if b.Schedule.Given > 0 {
						b.Choice.Granted = []script.Grant{{At: b.Schedule.At(0)}}
					}
					return b, nil
				}
				l := beginBy(t, row.algorithm, c, reserve)
				time.Sleep(2 * time.Second) // past the start
				slot := l.one(t)
				if s, err := l.Reserve(t.Context(), []Request{{Cost: 5}}); err != nil || !s[0].Slot.IsZero() {
					t.Fatalf("got %v, %v, want no slot: the units are used up", s, err)
				}
				l.Missed(slot)
				began := time.Now()
				if _, err := l.Again(t.Context(), Request{Cost: 5}); errors.Is(err, ErrGivenUp) {
					t.Fatal(err)
				}
				if took := time.Since(began); took > row.within {
					t.Errorf("got another slot after %v, want it within %v", took, row.within)
				}
				if named != row.units {
					t.Errorf("got %d units named as not used, want %d", named, row.units)
				}
			})
		})
	}
}

// one reserves for one job of five units.
func (l *Limiter) one(t *testing.T) Slot {
	t.Helper()
	if _, err := l.Turn(t.Context(), OneLane, nil); err != nil {
		t.Fatal(err)
	}
	answers, err := l.Reserve(t.Context(), []Request{{Cost: 5}})
	if err != nil || answers[0].Slot.IsZero() {
		t.Fatalf("got %v, %v, want a slot", answers, err)
	}
	return answers[0].Slot
}
