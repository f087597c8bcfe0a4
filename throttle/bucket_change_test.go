package throttle

import (
	"cmp"
	"slices"
	"strconv"
	"testing"
	"time"

	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// mostUnderAll is the most units that come within a window of all terms under which they were granted.
func mostUnderAll(all []heldUnit) (most int64) {
	slices.SortStableFunc(all, func(a, b heldUnit) int { return cmp.Compare(a.arrived, b.arrived) })
	for i, last := range all {
		shortest, held := last.window, int64(0)
		for _, one := range slices.Backward(all[:i+1]) {
			if shortest = min(shortest, one.window); last.arrived-one.arrived >= shortest.Microseconds() {
				break
			}
			held++
		}
		most = max(most, held)
	}
	return most
}

// bucketChanges are changes of the window, the guard and the burst of a limit that stores units.
func bucketChanges() termChanges {
	burst := func(roll dice) int64 { return 1 + roll(6) }
	return termChanges{
		most: mostUnderAll,
		contract: func(_ limit.Algorithm, roll dice) limit.Contract {
			c := contract(8)
			c.Burst = burst(roll)
			return c
		},
		change: func(roll dice) control.Change {
			ch := windowAndGuard(time.Duration(1+roll(4))*time.Second, time.Duration(2+roll(99))*time.Millisecond)
			if roll(2) == 0 {
				ch.Values["burst"] = strconv.FormatInt(burst(roll), 10)
			}
			return ch
		},
	}
}

// However often the window, the guard and the burst change, with and without units in between: no window holds more than the cap.
func TestChangesOfTheBurstNeverPassTheCap(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	bucketChanges().keep(t, algorithm(limit.TokenBucket))
}

// The law has teeth.
func TestChangesOfTheBurstLawBreaksWithout(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	bucketChanges().breakWithout(t, []brokenRule{
		{"token_bucket", "a burst is paid before new terms begin", "behind = c.base + after(old, c.n)", "behind = c.base"},
	})
}
