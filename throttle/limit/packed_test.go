package limit

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Settings come back as they were packed, and what Redis holds is kept byte for
// byte.
func TestSettingsComeBackAsTheyWerePacked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		roll := func(n int64) int64 { return rapid.Int64Range(0, n-1).Draw(rt, "roll") }
		s := Spec{Terms: Terms{Contract: drawContract(roll)}, Guardrails: Guardrails{MaxCap: roll(1000), MaxStep: float64(roll(5000)) / 1000}}.Settings()
		s.Revision, s.Changed = 1+roll(1000), time.UnixMicro(1+roll(1<<51))
		s.By, s.Why, s.Paused = rapid.String().Draw(rt, "by"), rapid.String().Draw(rt, "why"), roll(2) == 0
		if roll(2) == 0 {
			s.RevertAt = s.Changed.Add(time.Hour)
			s.RevertTo = Terms{Contract: drawContract(roll), Algorithm: SlidingWindowLog}
		}
		text := s.Pack()
		back, err := Unpack(text)
		if err != nil {
			rt.Fatalf("%s: %v", text, err)
		}
		if back.Pack() != text {
			rt.Errorf("got %s, want it byte for byte as %s", back.Pack(), text)
		}
		after := back.revertTo
		back.packed, back.revertTo = "", ""
		if again := back.Pack(); again != text {
			rt.Errorf("packed again: got %s, want %s", again, text)
		}
		if ends, err := Unpack(after); !s.RevertAt.IsZero() && (err != nil || ends.Terms != s.RevertTo || !ends.Changed.Equal(s.RevertAt) || ends.Revision != s.Revision+1) {
			rt.Errorf("after the override: got %+v and %v, want what it returns to", ends, err)
		}
	})
}

// What is unreadable is an error and never a limit.
func FuzzUnpack(f *testing.F) {
	s := Spec{Terms: Terms{Contract: Contract{
		Cap: 300, Window: time.Second, Burst: 1, Guard: DefaultGuard, Lateness: DefaultLateness, Horizon: DefaultHorizon,
	}}}.Settings()
	f.Add(s.Pack())
	s.RevertAt, s.RevertTo = time.UnixMicro(1_700_000_000_000_000), s.Terms
	f.Add(s.Pack())
	f.Add(`{"v":3,"cap":-1}`)
	f.Add(strings.Replace(s.Pack(), `"max_cost":1`, `"max_cost":301`, 1))
	f.Add(`{"v":4}`)
	f.Add(strings.NewReplacer(`"window":1000000000`, `"window":1`, `"guard":10000000`, `"guard":0`).Replace(s.Pack())) // less than Redis counts in
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Unpack(text)
		if err != nil {
			return
		}
		if units, period := s.Pace(); units < 1 || period < 1 || s.Pack() != text {
			t.Errorf("%q was taken, with a pace of %d/%d", text, units, period)
		}
	})
}

// drawContract is any contract that can be kept.
func drawContract(roll func(int64) int64) Contract {
	c := Contract{Cap: 1 + roll(MaxCap), Window: time.Second + time.Duration(roll(int64((MaxWindow-time.Second)/time.Microsecond)))*time.Microsecond}
	c.Guard = 2*time.Millisecond + time.Duration(roll(int64((min(c.Window/MinWindowGuards, time.Minute)-2*time.Millisecond)/time.Microsecond)+1))*time.Microsecond
	c.Lateness = MinLateness + time.Duration(roll(int64((c.Guard-MinLateness)/time.Microsecond)))*time.Microsecond
	c.Horizon, c.Auto, c.Spread = DefaultHorizon, roll(2) == 0, time.Duration(roll(20))*time.Millisecond
	c.Burst = 1 + roll(c.Cap)
	c.MaxCost = 1
	if roll(2) == 0 {
		c.MaxCost = 1 + roll(c.Cap-c.Burst+1)
	}
	if left := c.Cap - c.Burst - c.LargestCost() + 1; left > 0 && roll(3) == 0 {
		c.MaxNodes = 1 + roll(min(left, 100))
		c.Reserve = c.MaxNodes * (1 + roll(left/c.MaxNodes))
		c.MaxCost = min(c.MaxCost, c.UnitsOfNode())
	} else {
		c.MaxInFlight = roll(3) * roll(100)
	}
	return c
}
