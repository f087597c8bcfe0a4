package throttle

import (
	"testing"
	"time"

	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// guardChanges are changes of the guard alone.
func guardChanges() termChanges {
	return termChanges{
		most: mostHeld,
		contract: func(a limit.Algorithm, roll dice) limit.Contract {
			c := contract(1 + roll(4))
			if roll(2) == 0 {
				with := c
				with.Burst = 1 + roll(c.Cap)
				if errorsIn(a, with) == nil {
					c = with
				}
			}
			return c
		},
		change: func(roll dice) control.Change {
			guard := time.Duration(2+roll(99)) * time.Millisecond
			lateness := guard / 2
			return control.Change{Values: parameters.Values{"guard": guard.String(), "lateness": lateness.String()}}
		},
	}
}

// However often the guard changes, and however late calls come under the guard
// of their time: no window holds more than the cap.
func TestChangesOfTheGuardNeverPassTheCap(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, a := range limit.Algorithms() {
		if !a.Strict {
			continue
		}
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			guardChanges().keep(t, a)
		})
	}
}

// The law has teeth.
func TestChangesOfTheGuardLawBreaksWithout(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	guardChanges().breakWithout(t, []brokenRule{
		{"token_bucket", "each change takes the widest terms since the last unit in", "math.max(c.passed or 0, ", "math.max(0, "},
		{"token_bucket", "the last unit may be late", "behind + math.max(0, old.guard - c.guard)", "behind"},
		{"leaky_bucket", "each change takes the widest terms since the last unit in", "math.max(c.passed or 0, ", "math.max(0, "},
		{"leaky_bucket", "the last unit may be late", "behind + math.max(0, old.guard - c.guard)", "behind"},
		{"sliding_window_log", "units of before may be as late as their guard", "now < c.till and c.late or c.guard", "c.guard"},
		{"sliding_window_list", "each change takes the widest guard of before in", "local guard = now < c.till and c.late or old.guard", "local guard = old.guard"},
	})
}
