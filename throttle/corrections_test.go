package throttle

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/internal/bubbles"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/internal/slots"
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
			bubbles.Test(t, func(t *testing.T) {
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

// returning is a reserver behind a quota of the calendar, and the units that its calls give back there.
// The replies are of an epoch.
func returning(t *testing.T, epoch *int64) (r *reserver, given *[]int64) {
	t.Helper()
	l, err := New(Options{Redis: patient(t, miniredis.RunT(t).Addr()), Namespace: "ns", Name: "account", Limit: specOf(contract(300)), Gates: quotaGates()})
	if err != nil {
		t.Fatal(err)
	}
	given = new([]int64)
	l.reserve = func(_ context.Context, a script.Ask) (script.Reservation, error) {
		if a.Epoch == *epoch {
			for _, c := range a.Gates.Corrections {
				*given = append(*given, c.Slot)
			}
		}
		return script.Reservation{Now: 10, Epoch: *epoch, Settings: a.Known, Schedule: clock.Schedule{Units: 1, Period: 1}}, nil
	}
	return &reserver{
		Limiter: l, lanes: make([]lane, 1), clock: clock.Clock{Origin: time.Now(), Epoch: 1}, known: l.State().Settings,
		kind: algorithm(limit.TokenBucket), learned: true, seq: 1,
	}, given
}

// Slots of a reply that shows a step of the clock are not used, so their units are given back.
func TestSlotsOfAReplyThatShowsAStepAreGivenBack(t *testing.T) {
	t.Parallel()
	epoch := int64(1)
	r, given := returning(t, &epoch)
	r.stepped = true
	asked := []request{{Request: job(wholeQuota, "", 1), answer: &Answer{}}}
	r.receive(0, asked, script.Ask{Want: 1, Costs: costsOf(asked)}, script.Reservation{
		Settings: r.known, Schedule: clock.Schedule{Given: 1, Units: 1, Period: 1}, Choice: &script.Choice{Granted: []script.Grant{{At: 7}}},
	}, time.Now())
	r.call(t.Context(), 0, nil)
	if !asked[0].answer.Slot.IsZero() || len(*given) != 1 || (*given)[0] != 7 {
		t.Errorf("got a slot %v, and %v given back, want none and the one at 7", asked[0].answer.Slot, *given)
	}
}

// A quota of the calendar gets units back that were granted before a cooldown, also where the call
// that passed them on heard of the cooldown. A rolling one does not.
func TestAQuotaGetsUnitsBackAfterACooldown(t *testing.T) {
	t.Parallel()
	epoch := int64(2)
	r, given := returning(t, &epoch)
	for i, quota := range []int{wholeQuota, rollingQuota} {
		r.giveBack(&slots.Charge{Job: job(quota, "", 1), At: int64(7 + i), Epoch: 1})
	}
	for range 3 {
		r.call(t.Context(), 0, nil)
	}
	if len(*given) != 1 || (*given)[0] != 7 {
		t.Errorf("got %v given back, want the one at 7 once", *given)
	}
}

// A node that leaves gives all back.
func TestANodeThatLeavesGivesAllUnitsBack(t *testing.T) {
	t.Parallel()
	epoch := int64(1)
	r, given := returning(t, &epoch)
	const units = 300 // more than one call passes on
	for i := range int64(units) {
		r.giveBack(&slots.Charge{Job: job(wholeQuota, "", 1), At: i, Epoch: 1})
	}
	r.leave(t.Context())
	if len(*given) != units {
		t.Errorf("got %d units given back, want %d", len(*given), units)
	}
}
