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

// windowed are the algorithms that count the units of a window.
func windowed() []limit.Algorithm {
	return []limit.Algorithm{
		algorithm(limit.SlidingWindowLog), algorithm(limit.SlidingWindowList),
		algorithm(limit.SlidingWindowCounter), algorithm(limit.FixedWindow),
	}
}

// heldUnit is a unit that was granted: when its call arrived, and the window and the guard in force.
type heldUnit struct {
	granted, arrived int64
	window, guard    time.Duration
}

// windowChanges plays operators who change the window and the guard again and again, and calls that come as soon or as late
// as the guard of their time allows.
func windowChanges(t *testing.T, a limit.Algorithm, script string, roll dice, ops int) (all []heldUnit, worst int64) {
	t.Helper()
	tr := newTrial(t, "", a, contract(1+roll(4)), 1)
	tr.nodes[0].Reserving[a.Name] = redis.NewScript(script)
	var wait time.Duration
	for range ops {
		switch p := roll(10); {
		case p < 5:
			b := tr.reserve(0, 1+roll(tr.c.Cap))
			late := []time.Duration{0, b.Settings.Guard}[roll(2)]
			wait = b.Wait
			for j := range b.Schedule.Given {
				at := b.Schedule.At(j)
				all = append(all, heldUnit{at, at + late.Microseconds(), b.Settings.Window, b.Settings.Guard})
			}
		case p < 8:
			tr.pass([]int64{1_000, 100_000, 1_000_000, wait.Microseconds()}[roll(4)])
		default:
			for range 1 + roll(3) {
				tr.set(windowAndGuard(time.Duration(1+roll(4))*time.Second, time.Duration(2+roll(99))*time.Millisecond))
				if roll(4) > 0 {
					tr.poll()
				}
			}
		}
	}
	return all, a.Worst(tr.c)
}

// windowAndGuard is a change of the window and the guard.
func windowAndGuard(window, guard time.Duration) control.Change {
	lateness := guard / 2
	return control.Change{Values: parameters.Values{"window": window.String(), "guard": guard.String(), "lateness": lateness.String()}}
}

// most is the most units that a window holds which ends with the call of a unit, where the window is the one in force when
// that unit was granted.
func most(all []heldUnit) (most int64) {
	for i, last := range all {
		held := int64(0)
		for _, one := range all[:i+1] {
			if one.arrived > last.arrived-last.window.Microseconds() {
				held++
			}
		}
		most = max(most, held)
	}
	return most
}

const windowChangeOps = 80

// However often the window and the guard change, with and without units in between: no window holds more than the
// algorithm promises.
func TestChangesOfTheWindowNeverPassTheCap(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, a := range windowed() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			calls, runs := 0, 0
			rapid.Check(t, func(rt *rapid.T) {
				all, worst := windowChanges(t, a, scriptOf(a.Name), diceOf(rapid.Uint64().Draw(rt, "seed")), windowChangeOps)
				if got := most(all); got > worst {
					rt.Fatalf("%d calls in a window, and at most %d are promised", got, worst)
				}
				calls, runs = calls+len(all), runs+1
			})
			if calls < 5*runs {
				t.Errorf("got %d calls in %d runs; so few prove nothing", calls, runs)
			}
		})
	}
}

// The law has teeth.
func TestChangesOfTheWindowLawBreaksWithout(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, m := range []struct{ algorithm, rule, from, to string }{
		{"sliding_window_log", "a longer window begins again", "length(c) > length(old)", "false"},
		{"sliding_window_log", "the guard in force when the last unit was granted", "math.max(c.guard, c.late)", "c.guard"},
		{"fixed_window", "the last unit leaves the shorter window first", "c.slot + c.window + math.max(c.guard, c.late)", "c.slot"},
		{"sliding_window_counter", "the last unit leaves the shorter window first", "c.slot + c.window + math.max(c.guard, c.late)", "c.slot"},
	} {
		t.Run(m.algorithm+" without "+m.rule, func(t *testing.T) {
			t.Parallel()
			text := without(t, scriptOf(m.algorithm), m.from, m.to)
			for seed := range uint64(300) {
				all, worst := windowChanges(t, algorithm(m.algorithm), text, diceOf(seed), windowChangeOps)
				if got := most(all); got > worst {
					t.Logf("history %d: %d calls in a window, and at most %d are promised", seed, got, worst)
					return
				}
			}
			t.Error("no window over the cap was found")
		})
	}
}

// spent is a limit of 300 in that window whose units are all granted.
func spent(t *testing.T, a limit.Algorithm, window time.Duration) *trial {
	t.Helper()
	tr := newTrial(t, "", a, contractOf(300, window), 1)
	tr.pass(limit.Windowed(tr.c).Microseconds() - tr.now%limit.Windowed(tr.c).Microseconds())
	for tr.reserve(0, tr.c.Cap).Schedule.Given > 0 {
	}
	return tr
}

// waited is how long nothing is granted.
func (tr *trial) waited(within time.Duration) time.Duration {
	tr.Helper()
	before, began := len(tr.grants), tr.now
	for tr.reserve(0, 1).Schedule.Given == 0 && tr.now-began <= within.Microseconds() {
		tr.pass(10_000)
	}
	if len(tr.grants) == before {
		tr.Errorf("%s: nothing was granted within %v", tr.a.Name, within)
		return within
	}
	return time.Duration(tr.now-began) * time.Microsecond
}

// Behind a change to a shorter window a unit is granted when those before have left it, and none before.
func TestAShorterWindowCountsFromTheChange(t *testing.T) {
	t.Parallel()
	for _, a := range windowed() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			tr := spent(t, a, time.Hour)
			tr.set(control.Change{Values: parameters.Values{"window": "1s"}})
			length := limit.Windowed(tr.c)
			if took := tr.waited(length); took < length-20*time.Millisecond {
				t.Errorf("the next unit was granted after %v, and the last one leaves the window after %v", took, length)
			}
			tr.saturate(3*length.Microseconds(), 10)
			tr.mustKeep()
		})
	}
}

// A change that is undone before it granted a unit leaves nothing behind.
func TestAWindowThatIsUndoneLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, a := range windowed() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			tr := spent(t, a, time.Second)
			tr.set(control.Change{Values: parameters.Values{"window": "1h0m0s"}})
			tr.standsStill(2 * time.Second)
			tr.set(control.Change{Values: parameters.Values{"window": "1s"}})
			tr.waited(time.Second)
			tr.saturate(3*limit.Windowed(tr.c).Microseconds(), 10)
			tr.mustKeep()
		})
	}
}

// standsStill wants nothing to be granted for that long.
func (tr *trial) standsStill(d time.Duration) {
	tr.Helper()
	for end := tr.now + d.Microseconds(); tr.now < end; tr.pass(100_000) {
		if got := tr.reserve(0, 1).Schedule.Given; got > 0 {
			tr.Fatalf("%s: %d units were granted, want none", tr.a.Name, got)
		}
	}
}

// A unit may be as late as the guard in force when it was granted, however often the terms change before the next unit.
func TestALateUnitCountsUnderAllTermsThatFollow(t *testing.T) {
	t.Parallel()
	for _, a := range windowed() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, "", a, contract(10), 1)
			tr.set(windowAndGuard(time.Second, 100*time.Millisecond))
			tr.pass(3 * limit.Windowed(tr.c).Microseconds())
			tr.reserve(0, 10)
			last := tr.grants[len(tr.grants)-1]
			for _, window := range []time.Duration{time.Second, 2 * time.Second} {
				tr.set(windowAndGuard(window, 10*time.Millisecond))
				tr.poll()
			}
			tr.waited(3 * time.Second)
			want := 2*time.Second + 100*time.Millisecond
			if got := time.Duration(tr.grants[len(tr.grants)-1]-last) * time.Microsecond; got < want {
				t.Errorf("the next unit lies %v behind the last one, want %v at least", got, want)
			}
		})
	}
}
