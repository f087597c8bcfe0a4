package throttle

import (
	"testing"
	"time"

	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// forgottenCount is the rule that what a longer window counts again is waited for.
const forgottenCount = "c.known = math.max(c.known, math.min(c.slot + math.max(c.late, old.guard), math.max(now, c.slot) - old.window))"

// windowed are the algorithms that count the units of a window.
func windowed() []limit.Algorithm {
	return []limit.Algorithm{
		algorithm(limit.SlidingWindowLog), algorithm(limit.SlidingWindowList),
		algorithm(limit.SlidingWindowCounter), algorithm(limit.FixedWindow),
	}
}

// windowChanges are changes of the window and the guard.
func windowChanges() termChanges {
	return termChanges{
		most:     mostHeld,
		contract: func(_ limit.Algorithm, roll dice) limit.Contract { return contract(1 + roll(4)) },
		change: func(roll dice) control.Change {
			return windowAndGuard(time.Duration(1+roll(4))*time.Second, time.Duration(2+roll(99))*time.Millisecond)
		},
	}
}

// windowAndGuard is a change of the window and the guard.
func windowAndGuard(window, guard time.Duration) control.Change {
	lateness := guard / 2
	return control.Change{Values: parameters.Values{"window": window.String(), "guard": guard.String(), "lateness": lateness.String()}}
}

// However often the window and the guard change, with and without units in between: no window holds more than the
// algorithm promises.
func TestChangesOfTheWindowNeverPassTheCap(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, a := range windowed() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			windowChanges().keep(t, a)
		})
	}
}

// The law has teeth.
func TestChangesOfTheWindowLawBreaksWithout(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	windowChanges().breakWithout(t, []brokenRule{
		{"sliding_window_log", "what a longer window counts again is waited for", forgottenCount, ""},
		{"sliding_window_log", "units of before may be as late as their guard", "now < c.till and c.late or c.guard", "c.guard"},
		{"fixed_window", "what a longer window counts again is waited for", forgottenCount, ""},
		{"fixed_window", "a window goes on where the terms change", "now >= first + long", "true"},
		{"sliding_window_counter", "what a longer window counts again is waited for", forgottenCount, ""},
		{"sliding_window_log", "none goes in a shorter window before all of the longer one have arrived", "if c.window < old.window then", "if false then"},
		{"sliding_window_counter", "the next bucket begins behind the last unit", "math.max(start + long, tonumber(v[5]) + 1)", "start + long"},
	})
}

// spent is a limit of 300 in that window whose units are all granted.
func spent(t *testing.T, a limit.Algorithm, window time.Duration) *trial {
	t.Helper()
	tr := newTrial(t, "", a, contractOf(300, window), 1)
	tr.toBucket()
	for tr.reserve(0, tr.c.Cap).Schedule.Given > 0 {
	}
	return tr
}

// toBucket passes the time until the clock's next window and guard begin.
func (tr *trial) toBucket() {
	length := limit.Windowed(tr.c).Microseconds()
	tr.pass(length - tr.now%length)
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
			if began := limit.Micros(tr.reserve(0, 1).Settings.Began); began > tr.now+1_000_000 {
				t.Errorf("the terms are in force only %d µs from now, and units are granted", began-tr.now)
			}
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
	for _, a := range append(logs(), algorithm(limit.FixedWindow)) {
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

// A change of the guard stops nothing, however long the window is.
func TestAnotherGuardStopsNothing(t *testing.T) {
	t.Parallel()
	for _, a := range windowed() {
		for name, guard := range map[string]time.Duration{"longer": 30 * time.Millisecond, "shorter": 6 * time.Millisecond} {
			t.Run(a.Name+", "+name, func(t *testing.T) {
				t.Parallel()
				tr := newTrial(t, "", a, contractOf(300, time.Hour), 1)
				tr.toBucket()
				tr.reserve(0, 100)
				tr.set(windowAndGuard(time.Hour, guard))
				if got := tr.reserve(0, 300).Schedule.Given; got != 200 {
					t.Errorf("got %d units right behind the change, want the 200 that are left", got)
				}
				tr.mustKeep()
			})
		}
	}
}

// Behind a longer window nothing is granted for as long as it is longer: what was forgotten had left the shorter one by then.
func TestALongerWindowCostsAsMuchAsItIsLonger(t *testing.T) {
	t.Parallel()
	for _, a := range windowed() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, "", a, contractOf(300, 10*time.Second), 1)
			tr.toBucket()
			tr.reserve(0, 100)
			tr.pass(limit.Windowed(tr.c).Microseconds() + 1_000_000)
			tr.reserve(0, 100)
			tr.set(windowAndGuard(12*time.Second, tr.c.Guard))
			tr.standsStill(1900 * time.Millisecond)
			if took := tr.waited(time.Second); took > 200*time.Millisecond {
				t.Errorf("the next unit was granted %v after two seconds, want it at once", took)
			}
			tr.mustKeep()
		})
	}
}

// A guard that was longer counts until the units of then have left the window.
func TestALongerGuardIsOver(t *testing.T) {
	t.Parallel()
	for _, a := range logs() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, "", a, contract(10), 1)
			tr.set(windowAndGuard(time.Second, 100*time.Millisecond))
			tr.poll()
			tr.pass(3_000_000)
			tr.reserve(0, 10)
			tr.set(windowAndGuard(time.Second, 10*time.Millisecond))
			for _, want := range []time.Duration{1100 * time.Millisecond, 1010 * time.Millisecond} {
				last := tr.grants[len(tr.grants)-1]
				for tr.reserve(0, 10).Schedule.Given == 0 {
					tr.pass(1_000)
				}
				if got := time.Duration(tr.grants[len(tr.grants)-1]-last) * time.Microsecond; got < want || got > want+2*time.Millisecond {
					t.Errorf("got the next units %v behind the last ones, want %v", got, want)
				}
			}
		})
	}
}

// The state of a window that became longer is kept for as long: units of before count in it.
func TestALongerWindowKeepsItsState(t *testing.T) {
	t.Parallel()
	for _, a := range windowed() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			tr := spent(t, a, time.Second)
			tr.pass(500_000)
			tr.set(windowAndGuard(4*time.Second, tr.c.Guard))
			tr.poll()
			if took := tr.waited(6 * time.Second); took < 3400*time.Millisecond {
				t.Errorf("the next unit was granted after %v, and the last one leaves the window after 3.5s", took)
			}
			tr.saturate(3*limit.Windowed(tr.c).Microseconds(), 10)
			tr.mustKeep()
		})
	}
}

// A change that comes right behind a grant: that one is for a time ahead, and had units forgotten that are in the window until then.
func TestAChangeRightBehindAGrantForgetsNothing(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "", algorithm(limit.FixedWindow), contract(10), 1)
	tr.pass(3_000_000)
	tr.reserve(0, 10)
	first := tr.grants[len(tr.grants)-1]
	tr.pass(limit.Windowed(tr.c).Microseconds())
	tr.reserve(0, 1) // a new window begins
	tr.set(windowAndGuard(2*time.Second, tr.c.Guard))
	for tr.reserve(0, 9).Schedule.Given == 0 {
		tr.pass(500)
	}
	if got, want := time.Duration(tr.grants[len(tr.grants)-1]-first)*time.Microsecond, 2*time.Second+tr.c.Guard; got < want {
		t.Errorf("the next units lie %v behind those that were forgotten, want %v at least", got, want)
	}
}

// The first unit of a window is a whole window away from the next one, and counts whether or not it is used.
func TestAFixedWindowKeepsTheUnitThatItBeganWith(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "", algorithm(limit.FixedWindow), contract(2), 1)
	tr.pass(3_000_000)
	tr.reserve(0, 1)
	tr.unused = tr.dropped(1)
	tr.pass(1_000)
	if got := tr.reserve(0, 2).Schedule.Given; got != 1 {
		t.Errorf("got %d units beside one that was not used, want 1", got)
	}
	tr.pass(limit.Windowed(tr.c).Microseconds() - 1_000)
	tr.reserve(0, 2)
	tr.mustKeep()
}
