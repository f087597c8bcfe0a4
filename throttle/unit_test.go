package throttle

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/internal/fault"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/limit"
)

func TestContractRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		edit  func(*limit.Contract)
		field string
	}{
		{"cap 0", func(c *limit.Contract) { c.Cap = 0 }, "cap"},
		{"burst above cap", func(c *limit.Contract) { c.Burst = 301 }, "burst"},
		{"burst 0", func(c *limit.Contract) { c.Burst = 0 }, "burst"},
		{"window under ten guards", func(c *limit.Contract) { c.Window = 99 * time.Millisecond }, "window"},
		{"lateness eats the guard", func(c *limit.Contract) { c.Lateness = c.Guard }, "lateness"},
		{"horizon too far", func(c *limit.Contract) { c.Horizon = time.Second }, "horizon"},
		{"nanoseconds", func(c *limit.Contract) { c.Window++ }, "window"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := contract(300)
			if err := c.Validate(); err != nil {
				t.Fatalf("the contract to begin with: %v", err)
			}
			tc.edit(&c)
			err := c.Validate()
			var field *fault.Error
			if !errors.As(err, &field) || field.Field != tc.field {
				t.Errorf("got %v, want a refusal of %s", err, tc.field)
			}
		})
	}
}

func TestContractFigures(t *testing.T) {
	t.Parallel()
	c := contract(300)
	if got := c.Share(); math.Abs(got-1/1.01) > 1e-9 {
		t.Errorf("got a share of %v, want %v", got, 1/1.01)
	}
	if got, want := c.Spacing(), 3366667*time.Nanosecond; got != want {
		t.Errorf("got a spacing of %v, want %v", got, want)
	}
	c.Burst = 100
	if got, want := c.Share(), 201.0/300/1.01; math.Abs(got-want) > 1e-9 {
		t.Errorf("got a share of %v with a burst of 100, want %v", got, want)
	}
}

// A slot and the units-th behind it lie exactly one period apart, and never
// closer by rounding.
func TestScheduleSpacing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := clock.Schedule{
			Base: rapid.Int64Range(0, 1<<50).Draw(rt, "base"), N: rapid.Int64Range(0, 1<<20).Draw(rt, "n"),
			Units: rapid.Int64Range(1, 1<<20).Draw(rt, "units"), Period: rapid.Int64Range(1, 1<<28).Draw(rt, "period"),
		}
		j := rapid.Int64Range(0, 1<<20).Draw(rt, "j")
		if got := s.At(j+s.Units) - s.At(j); got != s.Period {
			rt.Errorf("got %d µs over %d units, want %d", got, s.Units, s.Period)
		}
	})
}

// Whatever the delays and the true offset, a call between a slot's bounds
// begins no earlier than the slot and no more than the lateness after it.
func TestClockIsConservative(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		origin := time.Unix(5000, 0)
		offset := time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(rt, "offset")) * time.Microsecond
		c := clock.Clock{Origin: origin}
		at := time.Duration(0)
		ppm := rapid.Int64Range(-clock.DriftPPM, clock.DriftPPM).Draw(rt, "drift")
		redis := func(at time.Duration) time.Duration { return at + offset + at*time.Duration(ppm)/1_000_000 }
		for range rapid.IntRange(1, 20).Draw(rt, "readings") {
			at += time.Duration(rapid.Int64Range(0, 5e6).Draw(rt, "gap")) * time.Microsecond
			there := time.Duration(rapid.Int64Range(0, 300).Draw(rt, "there")) * time.Microsecond
			back := time.Duration(rapid.Int64Range(0, 300).Draw(rt, "back")) * time.Microsecond
			r := clock.Reading{Asked: origin.Add(at), Answered: origin.Add(at + there + back), Now: redis(at + there).Microseconds(), Epoch: 1}
			if c.Observe(r) {
				rt.Fatal("a step was seen where there was none")
			}
			at += there + back
		}
		slot := at + 100*time.Millisecond // true time of the slot, on the node's clock
		notBefore, notAfter := c.Slot(redis(slot).Microseconds(), limit.DefaultLateness, origin.Add(at))
		const tick = 12 * time.Microsecond // of the clocks' microseconds, and the drift until the slot
		if early := slot - notBefore.Sub(origin); early > tick {
			rt.Errorf("a call could begin %v before its slot", early)
		}
		if late := notAfter.Sub(origin) - slot; late > limit.DefaultLateness+tick {
			rt.Errorf("a call could begin %v after its slot, want at most %v", late, limit.DefaultLateness)
		}
	})
}

func TestClockSeesSteps(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		step time.Duration
		want bool
	}{{0, false}, {500 * time.Microsecond, false}, {5 * time.Millisecond, true}, {-5 * time.Millisecond, true}, {time.Hour, true}, {-time.Hour, true}} {
		c := clock.Clock{Origin: time.Unix(0, 0)}
		read := func(at, redis time.Duration) bool {
			return c.Observe(clock.Reading{Asked: c.Origin.Add(at), Answered: c.Origin.Add(at + time.Millisecond), Now: (redis + time.Hour).Microseconds(), Epoch: 7})
		}
		if read(0, 0) {
			t.Error("the first reading counts as a step")
		}
		if got := read(time.Second, time.Second+tc.step); got != tc.want {
			t.Errorf("a step of %v: got %v, want %v", tc.step, got, tc.want)
		}
	}
}

func TestNameRefusals(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a b", "A", "{x}", "a:b", strings.Repeat("a", 64), "-a"} {
		if err := limit.CheckName("name", name); err == nil {
			t.Errorf("name %q was taken", name)
		}
	}
	if err := limit.CheckName("name", "provider-1_b"); err != nil {
		t.Error(err)
	}
}

// The scripts read a node's name back from records in which white space ends it. A name that they could not read would switch off the
// handling of clock steps.
func TestNodeNameRefusals(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"rack 3", "a\tb", "a\u00a0b", "\x1b[2J", "\xff", strings.Repeat("a", 256)} {
		_, err := New(Options{Redis: patient(t, "127.0.0.1:1"), Namespace: "ns", Name: "provider", Node: name, Limit: specOf(contract(300))})
		if err == nil || !strings.Contains(err.Error(), "without white space") {
			t.Errorf("node %q: got %v, want a refusal", name, err)
		}
	}
	for _, name := range []string{"", "node-1", "ip-10-0-0-1.ec2.internal", "zürich_2", strings.Repeat("a", 255)} {
		if _, err := New(Options{Redis: patient(t, "127.0.0.1:1"), Namespace: "ns", Name: "provider", Node: name, Limit: specOf(contract(300))}); err != nil {
			t.Errorf("node %q: %v", name, err)
		}
	}
}
