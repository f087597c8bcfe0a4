package limit_test

import (
	"testing"
	"time"

	"dispatcher/throttle/limit"
)

// Slots that are out may be too many after a cut, and never because calls may be later, whatever the algorithm is.
func TestALongerGuardIsNotStricter(t *testing.T) {
	t.Parallel()
	for _, a := range limit.Algorithms() {
		before := limit.Settings{Terms: limit.Terms{Algorithm: a.Name, Contract: limit.Contract{
			Cap: 100, Window: time.Second, Burst: 1, MaxCost: 10, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: 200 * time.Millisecond,
		}}}
		for name, row := range map[string]struct {
			change func(*limit.Settings)
			want   bool
		}{
			"a longer guard":    {func(s *limit.Settings) { s.Guard, s.Lateness = 50*time.Millisecond, 40*time.Millisecond }, false},
			"a shorter guard":   {func(s *limit.Settings) { s.Guard, s.Lateness = 5*time.Millisecond, time.Millisecond }, false},
			"a shorter horizon": {func(s *limit.Settings) { s.Horizon = 100 * time.Millisecond }, false},
			"a small raise":     {func(s *limit.Settings) { s.Cap++ }, false},
			"a small cut":       {func(s *limit.Settings) { s.Cap-- }, true},
			"a longer window":   {func(s *limit.Settings) { s.Window += time.Millisecond }, true},
			"a pause":           {func(s *limit.Settings) { s.Paused = true }, true},
		} {
			after := before
			row.change(&after)
			if got := after.Stricter(before); got != row.want {
				t.Errorf("%s, %s: got stricter: %t, want %t", a.Name, name, got, row.want)
			}
		}
	}
}
