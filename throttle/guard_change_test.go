package throttle

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// guardChanges plays operators who change the guard again and again, with and
// without units in between, and calls that come as soon or as late as the guard
// of their time allows. It returns the most calls that a window holds, and how
// many there were.
func guardChanges(t *testing.T, a limit.Algorithm, script string, roll dice, ops int) (most, calls int, c limit.Contract) {
	t.Helper()
	c = contract(1 + roll(4))
	if roll(2) == 0 {
		with := c
		with.Burst = 1 + roll(c.Cap)
		if errorsIn(a, with) == nil {
			c = with
		}
	}
	tr := newTrial(t, "", a, c, 1)
	tr.nodes[0].Reserving[a.Name] = redis.NewScript(script)
	var arrived []int64
	var wait time.Duration
	for range ops {
		switch p := roll(10); {
		case p < 5:
			b := tr.reserve(0, 1+roll(c.Cap))
			late := []time.Duration{0, b.Settings.Guard}[roll(2)]
			wait = b.Wait
			for j := range b.Schedule.Given {
				arrived = append(arrived, b.Schedule.At(j)+late.Microseconds())
			}
		case p < 8:
			tr.pass([]int64{1_000, 100_000, 1_000_000, wait.Microseconds()}[roll(4)])
		default:
			for range 1 + roll(4) {
				guard := time.Duration(2+roll(99)) * time.Millisecond
				lateness := guard / 2
				tr.set(control.Change{Values: parameters.Values{"guard": guard.String(), "lateness": lateness.String()}})
				if roll(4) > 0 {
					tr.poll()
				}
			}
		}
	}
	return fullest(arrived, c.Window), len(arrived), c
}

const guardChangeOps = 80

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
			calls, runs := 0, 0
			rapid.Check(t, func(rt *rapid.T) {
				most, n, c := guardChanges(t, a, scriptOf(a.Name), diceOf(rapid.Uint64().Draw(rt, "seed")), guardChangeOps)
				if int64(most) > c.Cap {
					rt.Fatalf("%d calls in %v, and the cap is %d (burst %d)", most, c.Window, c.Cap, c.Burst)
				}
				calls, runs = calls+n, runs+1
			})
			if calls < 5*runs {
				t.Errorf("got %d calls in %d runs; so few prove nothing", calls, runs)
			}
		})
	}
}

// The law has teeth.
func TestChangesOfTheGuardLawBreaksWithout(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, m := range []struct{ algorithm, rule, from, to string }{
		{"token_bucket", "each change takes the widest terms since the last unit in", "math.max(c.passed or 0, ", "math.max(0, "},
		{"token_bucket", "the last unit may be late", "behind + math.max(0, old.guard - c.guard)", "behind"},
		{"leaky_bucket", "each change takes the widest terms since the last unit in", "math.max(c.passed or 0, ", "math.max(0, "},
		{"leaky_bucket", "the last unit may be late", "behind + math.max(0, old.guard - c.guard)", "behind"},
		{"sliding_window_log", "the guard in force when the last unit was granted", "math.max(c.guard, c.late)", "c.guard"},
		{"sliding_window_list", "a smaller guard begins again", " or c.guard < old.guard", ""},
	} {
		t.Run(m.algorithm+" without "+m.rule, func(t *testing.T) {
			t.Parallel()
			text := without(t, scriptOf(m.algorithm), m.from, m.to)
			a, err := limit.AlgorithmNamed(m.algorithm)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(300) {
				most, _, c := guardChanges(t, a, text, diceOf(seed), guardChangeOps)
				if int64(most) > c.Cap {
					t.Logf("history %d: %d calls in %v, and the cap is %d", seed, most, c.Window, c.Cap)
					return
				}
			}
			t.Error("no window over the cap was found")
		})
	}
}
