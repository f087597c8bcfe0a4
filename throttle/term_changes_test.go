package throttle

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// heldUnit is a unit that was granted: when its call arrived, and the window that was in force.
type heldUnit struct {
	arrived int64
	window  time.Duration
}

// termChanges plays operators who change the terms of a limit again and again, with and without units in between, and calls that
// come as soon or as late as the guard of their time allows.
type termChanges struct {
	contract func(limit.Algorithm, dice) limit.Contract // at first
	change   func(dice) control.Change
	most     func([]heldUnit) int64 // that a window holds
}

const termChangeOps = 80

// play returns the most units that a window held, how many may be in one, and how many there were.
func (p termChanges) play(t *testing.T, a limit.Algorithm, script string, roll dice) (most, worst int64, units int) {
	t.Helper()
	tr := newTrial(t, "", a, p.contract(a, roll), 1)
	tr.nodes[0].Reserving[a.Name] = redis.NewScript(script)
	var all []heldUnit
	var wait time.Duration
	for range termChangeOps {
		switch op := roll(10); {
		case op < 5:
			b := tr.reserve(0, 1+roll(tr.c.Cap))
			late := []time.Duration{0, b.Settings.Guard}[roll(2)]
			wait = b.Wait
			for j := range b.Schedule.Given {
				all = append(all, heldUnit{b.Schedule.At(j) + late.Microseconds(), b.Settings.Window})
			}
		case op < 8:
			tr.pass([]int64{1_000, 100_000, 1_000_000, wait.Microseconds()}[roll(4)])
		default:
			for range 1 + roll(4) {
				tr.set(p.change(roll))
				if roll(4) > 0 {
					tr.poll()
				}
			}
		}
	}
	return p.most(all), a.Worst(tr.c), len(all)
}

// mostHeld is the most units that a window holds which ends with the call of a unit, where the window is the one in force when
// that unit was granted. Units that were granted before count also where they arrive a little later.
func mostHeld(all []heldUnit) (most int64) {
	for i, last := range all {
		held := int64(0)
		for j, one := range all {
			if (j <= i || one.arrived <= last.arrived) && one.arrived > last.arrived-last.window.Microseconds() {
				held++
			}
		}
		most = max(most, held)
	}
	return most
}

// keep wants no window to hold more than the algorithm promises.
func (p termChanges) keep(t *testing.T, a limit.Algorithm) {
	t.Helper()
	calls, runs := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		most, worst, n := p.play(t, a, scriptOf(a.Name), diceOf(rapid.Uint64().Draw(rt, "seed")))
		if most > worst {
			rt.Fatalf("%d calls in a window, and at most %d are promised", most, worst)
		}
		calls, runs = calls+n, runs+1
	})
	if calls < 5*runs {
		t.Errorf("got %d calls in %d runs; so few prove nothing", calls, runs)
	}
}

// brokenRule is a rule of an algorithm's script, and what stands in its place.
type brokenRule struct{ algorithm, rule, from, to string }

// breakWithout wants a history in which a window holds more, without each of the rules.
func (p termChanges) breakWithout(t *testing.T, rules []brokenRule) {
	t.Helper()
	for _, m := range rules {
		t.Run(m.algorithm+" without "+m.rule, func(t *testing.T) {
			t.Parallel()
			text := without(t, scriptOf(m.algorithm), m.from, m.to)
			for seed := range uint64(300) {
				if most, worst, _ := p.play(t, algorithm(m.algorithm), text, diceOf(seed)); most > worst {
					t.Logf("history %d: %d calls in a window, and at most %d are promised", seed, most, worst)
					return
				}
			}
			t.Error("no window over the cap was found")
		})
	}
}
