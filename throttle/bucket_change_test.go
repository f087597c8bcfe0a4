package throttle

import (
	"cmp"
	"slices"
	"strconv"
	"testing"
	"time"

	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
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
		{"token_bucket", "a burst is paid before new terms begin", "math.min(after(old, old.burst), after(c, old.burst))", "math.min(after(old, 1), after(c, 1))"},
		{"token_bucket", "new terms begin after those that granted nothing", "behind = math.max(c.base, behind)", "behind = behind"},
	})
}

// A mistaken window is undone at once: the burst that was granted before it is not paid at its pace.
func TestAMistakenWindowOfABucketIsUndoneAtOnce(t *testing.T) {
	t.Parallel()
	c := contract(300)
	c.Burst = 30
	tr := newTrial(t, "", algorithm(limit.TokenBucket), c, 1)
	tr.pass(limit.Windowed(c).Microseconds())
	for tr.reserve(0, tr.c.Cap).Schedule.Given > 0 {
	}
	for range 3 {
		tr.set(control.Change{Values: parameters.Values{"window": "1h0m0s"}})
		tr.waited(time.Second)
		tr.set(control.Change{Values: parameters.Values{"window": "1s"}})
		if took := tr.waited(time.Second); took > 200*time.Millisecond {
			t.Errorf("the next unit was granted after %v, want it once 30 units have passed at 300/s", took)
		}
	}
	tr.saturate(3*limit.Windowed(tr.c).Microseconds(), 10)
	tr.mustKeep()
}
