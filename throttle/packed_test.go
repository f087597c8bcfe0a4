package throttle

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Settings come back as they were packed, and what Redis holds is kept byte for
// byte.
func TestSettingsComeBackAsTheyWerePacked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		roll := rolls(rt)
		s := seeded("", anyContract(roll), Rails{MaxCap: roll(1000), MaxStep: roll(5000)})
		s.Revision, s.Changed = 1+roll(1000), time.UnixMicro(1+roll(1<<51))
		s.By, s.Why, s.Paused = rapid.String().Draw(rt, "by"), rapid.String().Draw(rt, "why"), roll(2) == 0
		if roll(2) == 0 {
			s.Until = s.Changed.Add(time.Hour)
			s.Was = Terms{Contract: anyContract(roll), Algorithm: slidingWindowLog().Name}
		}
		text := s.pack()
		back, err := unpack(text)
		if err != nil {
			rt.Fatalf("%s: %v", text, err)
		}
		if back.pack() != text {
			rt.Errorf("got %s, want it byte for byte as %s", back.pack(), text)
		}
		after := back.after
		back = back.edited()
		if again := back.pack(); again != text {
			rt.Errorf("packed again: got %s, want %s", again, text)
		}
		if ends, err := unpack(after); !s.Until.IsZero() && (err != nil || ends.Terms != s.Was || !ends.Changed.Equal(s.Until) || ends.Revision != s.Revision+1) {
			rt.Errorf("after the override: got %+v and %v, want what it returns to", ends, err)
		}
	})
}

// What is unreadable is an error and never a limit.
func FuzzUnpack(f *testing.F) {
	s := seeded("", contract(300), Rails{})
	f.Add(s.pack())
	s.Until, s.Was = time.UnixMicro(1_700_000_000_000_000), s.Terms
	f.Add(s.pack())
	f.Add(`{"v":2,"cap":-1}`)
	f.Add(`{"v":3}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := unpack(text)
		if err != nil {
			return
		}
		if units, period := s.Pace(); units < 1 || period < 1 || s.pack() != text {
			t.Errorf("%q was taken, with a pace of %d/%d", text, units, period)
		}
	})
}
