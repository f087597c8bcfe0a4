package control_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/throttle"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// newGate is a Redis with a node that keeps the gate recipient, of 5 a second, beside a limit.
func newGate(t *testing.T) *deployment {
	t.Helper()
	c := &deployment{server: miniredis.RunT(t)}
	c.rdb = redis.NewClient(&redis.Options{Addr: c.server.Addr()})
	t.Cleanup(func() { _ = c.rdb.Close() })
	var err error
	if c.Control, err = control.NewControl(c.rdb, "default", "recipient"); err != nil {
		t.Fatal(err)
	}
	spec := func(units int64) limit.Spec {
		return limit.Spec{Terms: limit.Terms{Contract: limit.Contract{
			Cap: units, Window: time.Second, Burst: 1, Auto: true, Spread: limit.DefaultSpread,
			Guard: limit.DefaultGuard, Lateness: limit.DefaultLateness, Horizon: limit.DefaultHorizon,
		}}}
	}
	c.start(t, throttle.Options{Node: "node-1", Limit: spec(300), Gates: []throttle.Gate{{Name: "recipient", Limit: spec(5)}}})
	c.until(t, "the gate is in Redis", func() bool {
		s, err := c.Get(t.Context())
		return err == nil && s.Gate
	})
	return c
}

func TestAGateTakesNoSettingOfTheFirstLimit(t *testing.T) {
	t.Parallel()
	c := newGate(t)
	before, err := c.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ name, value, want string }{
		{"guard", "20ms", "guard: 20ms: is the first limit's: change it there"},
		{"guard", "auto", "guard: auto: is the first limit's: change it there"},
		{"lateness", "2ms", "lateness: 2ms: is the first limit's: change it there"},
		{"spread", "2ms", "spread: 2ms: is the first limit's: change it there"},
		{"horizon", "100ms", "horizon: 100ms: is the first limit's: change it there"},
		{"burst", "2", "burst: 2: is the first limit's: change it there"},
		{"algorithm", "gcra", "algorithm: gcra: is the first limit's: change it there"},
		{"max_in_flight", "3", "max_in_flight: 3: is the first limit's: change it there"},
		{"window", "1h", "window: 1h0m0s: must be from 1ms to 1m beside the first limit"},
		{"window", "500us", "window: 500µs: must be from 1ms to 1m"},
		{"max_cost", "6", "max_cost: 6: must be at most 5"},
		{"max_cost", "5", "max_cost: 5: leaves 0.198 of the cap"},
	} {
		for _, force := range []bool{false, true} {
			if force && strings.Contains(row.want, "leaves") {
				continue
			}
			for _, during := range []time.Duration{0, time.Minute} {
				_, err := c.Set(t.Context(), control.Change{Values: parameters.Values{row.name: row.value}, For: during, Force: force})
				if err == nil || !strings.Contains(err.Error(), row.want) {
					t.Errorf("%s %s for %s: got %v, want %s", row.name, row.value, during, err, row.want)
				}
			}
		}
	}
	if after, err := c.Get(t.Context()); err != nil || after.Pack() != before.Pack() {
		t.Errorf("got %+v, %v, want what it was before: %+v", after, err, before)
	}
}

func TestAGateIsOverriddenPausedAndUndone(t *testing.T) {
	t.Parallel()
	c := newGate(t)
	seeded, err := c.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := c.must(t, capFor(7, time.Minute))
	if s.Cap != 7 || !s.Gate || !s.RevertTo.Gate || s.RevertTo.Cap != 5 || s.Guard != seeded.Guard || s.Lateness != seeded.Lateness {
		t.Errorf("got %+v, want a gate of 7 that returns to the gate of 5", s)
	}
	if _, err := c.Set(t.Context(), control.Change{Values: parameters.Values{"max_cost": "6"}, Force: true}); err == nil ||
		!strings.Contains(err.Error(), "when the override ends: max_cost: 6: must be at most 5") {
		t.Errorf("got %v, want the terms that follow the override checked as a gate's", err)
	}
	if s = c.must(t, paused(true)); !s.Paused || !s.RevertTo.Paused || !s.Gate {
		t.Errorf("got %+v, want it paused now and then", s)
	}
	c.must(t, paused(false))
	if s, err = c.Undo(t.Context(), 0, control.Change{By: "ops"}); err != nil || !s.Paused {
		t.Errorf("got %+v, %v, want the pause again", s, err)
	}
	if s, err = c.Undo(t.Context(), 1, control.Change{By: "ops"}); err != nil || s.Terms != seeded.Terms {
		t.Errorf("got %+v, %v, want the terms of the file: %+v", s, err, seeded.Terms)
	}
	c.must(t, capFor(7, control.MinOverride))
	c.until(t, "the override is over", func() bool {
		s, err := c.Get(t.Context())
		return err == nil && s.Terms == seeded.Terms
	})
	history, err := c.History(t.Context(), 10)
	if err != nil || len(history) != 7 || !history[0].From.Gate || !history[0].To.Gate {
		t.Errorf("got %+v, %v, want seven changes of a gate", history, err)
	}
	if _, err := c.Set(t.Context(), capOf(5)); !errors.Is(err, control.ErrUnchanged) {
		t.Errorf("got %v, want nothing changed", err)
	}
}
