package throttle

import (
	"fmt"
	"math/big"
	"testing"
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// extremes are contracts at the ends of what is ordinary, with a burst only where
// the algorithm knows one.
func extremes(a limit.Algorithm) (list []limit.Contract) {
	for _, c := range refusedOnce() {
		if (limit.Terms{Contract: c, Algorithm: a.Name}).Validate() != nil {
			c.Burst = 1
		}
		if a.Name != "redis_cell" && errorsIn(a, c) == nil { // that needs a module
			list = append(list, c)
		}
	}
	return list
}

// The script keeps the pace of every contract to the µs, never faster: for as
// many units as any call gives, over many calls.
func TestTheScriptKeepsEveryPace(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, a := range limit.Algorithms() {
		if !a.Ahead && a.Name != limit.GCRA {
			continue // it keeps no pace
		}
		for i, c := range extremes(a) {
			t.Run(fmt.Sprint(a.Name, " ", i), func(t *testing.T) {
				t.Parallel()
				keepsPace(newTrial(t, "", a, c, 1))
			})
		}
		t.Run(a.Name+" any", func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(20) {
				c := anyContract(diceOf(seed))
				if (limit.Terms{Contract: c, Algorithm: a.Name}).Validate() != nil {
					c.Burst = 1
				}
				keepsPace(newTrial(t, "", a, c, 1))
			}
		})
	}
}

// keepsPace takes whatever there is, as soon as there is some, from an empty
// bucket on. What is given first may be held up by the nearest, and is no measure.
func keepsPace(tr *trial) {
	tr.Helper()
	units, period := tr.a.Pace(tr.c)
	if tr.a.Name == limit.GCRA {
		units, period = limit.Given(tr.c), tr.c.Window.Microseconds()
	}
	tr.pass(tr.greedy().Wait.Microseconds())
	var first, taken int64
	for range 12 {
		b := tr.greedy()
		if g := b.Schedule.Given; g > 0 {
			if taken == 0 {
				first = b.Schedule.At(0)
			}
			tr.paced(b.Schedule.At(0)-first, taken, units, period)
			tr.paced(b.Schedule.At(g-1)-first, taken+g-1, units, period)
			taken += g
		}
		tr.pass(max(1, b.Wait.Microseconds()))
	}
	if taken < 5 {
		tr.Errorf("%s, %v: got %d units; so few prove nothing", tr.a.Name, tr.c, taken)
	}
}

// greedy takes all there is, or says when the next unit comes.
func (tr *trial) greedy() script.Reservation {
	tr.Helper()
	if b := tr.grant(0, tr.c.Cap); b.Schedule.Given > 0 {
		return b
	}
	return tr.grant(0, 1)
}

// paced wants the unit of that number at its time, in µs after the first one:
// rounded up from a pace that may be slower by a part in 10⁸, and two in a million
// above the ordinary caps.
func (tr *trial) paced(at, number, units, period int64) {
	tr.Helper()
	early := new(big.Int).Mul(big.NewInt(at+1), big.NewInt(units))
	if early.Cmp(new(big.Int).Mul(big.NewInt(number), big.NewInt(period))) <= 0 {
		tr.Fatalf("%s, %v: unit %d came after %d µs, sooner than %d in %d µs", tr.a.Name, tr.c, number, at, units, period)
	}
	slack := 1e-8
	if tr.c.Cap > ordinaryCap {
		slack = 2e-6
	}
	exact, _ := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(number), big.NewInt(period)), big.NewInt(units)).Float64()
	if late := float64(at) - exact; late > 2+exact*slack {
		tr.Fatalf("%s, %v: unit %d came %.0f µs late", tr.a.Name, tr.c, number, late)
	}
}

// At every extreme the whole cap is given within each window, no more than is
// promised, and a caller with a wait is served then.
func TestWindowsAreFilledAtEveryExtreme(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, a := range limit.Algorithms() {
		if a.Ahead || a.Cooldown(contract(300)) != limit.Windowed(contract(300)) {
			continue // it counts in no window
		}
		for i, c := range extremes(a) {
			if c.Cap > ordinaryCap {
				continue // each unit is noted here
			}
			t.Run(fmt.Sprint(a.Name, " ", i), func(t *testing.T) {
				t.Parallel()
				tr := newTrial(t, "", a, c, 1)
				tr.pass(limit.Windowed(c).Microseconds())
				fills(tr)
				tr.mustKeep()
			})
		}
	}
}

// fills takes all there is over four windows, in eighths of the cap.
func fills(tr *trial) {
	tr.Helper()
	want, refused := (tr.c.Cap+7)/8, false
	var taken int64
	for end := tr.now + 4*limit.Windowed(tr.c).Microseconds(); tr.now < end; {
		b := tr.reserve(0, want)
		taken += b.Schedule.Given
		if b.Schedule.Given > 0 {
			refused = false
			tr.pass(limit.Windowed(tr.c).Microseconds() / 50)
			continue
		}
		if refused {
			tr.Fatalf("%s, %v: refused after the wait, with %v more to wait", tr.a.Name, tr.c, b.Wait)
		}
		refused = true
		tr.pass(b.Wait.Microseconds())
	}
	if share := float64(taken) / float64(4*tr.c.Cap); share < tr.a.Share(tr.c)*0.97-1e-9 && tr.c.Cap > 1 {
		tr.Errorf("%s, %v: used %.3f of the cap, and %.3f was promised", tr.a.Name, tr.c, share, tr.a.Share(tr.c))
	}
}

// An idle bucket gives its burst at once, and no more than the cap in the window
// that begins with it, at every extreme.
func TestABurstIsPaidForAtEveryExtreme(t *testing.T) {
	t.Parallel()
	for i, c := range extremes(algorithm(limit.TokenBucket)) {
		units, period := c.Pace()
		filled := clock.After(c.Burst, units, period)
		if filled > clock.Far/4 {
			continue // a bucket that fills within 30 years
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, "", algorithm(limit.TokenBucket), c, 1)
			tr.now += filled
			tr.mini.SetTime(time.UnixMicro(tr.now))
			b := tr.grant(0, c.Cap)
			if got := b.Schedule.At(c.Burst-1) - b.Schedule.At(0); b.Schedule.Given < c.Burst || got > 0 {
				t.Errorf("%v: got %d units of an idle bucket, the burst within %d µs", c, b.Schedule.Given, got)
			}
			if over := b.Schedule.At(c.Cap) - b.Schedule.At(0); over < limit.Windowed(c).Microseconds() {
				t.Errorf("%v: unit %d lies %d µs behind the first", c, c.Cap, over)
			}
			next := tr.grant(0, 1)
			tr.pass(next.Wait.Microseconds())
			for next.Schedule.Given == 0 {
				next = tr.grant(0, 1)
				tr.pass(next.Wait.Microseconds())
			}
			if got, want := next.Schedule.At(0), b.Schedule.At(b.Schedule.Given); got != want {
				t.Errorf("%v: the unit behind the burst lies at %d, want %d (%d in %d µs)", c, got, want, units, period)
			}
		})
	}
}

// reserve asks for units and does not note those given: there may be millions.
func (tr *trial) grant(node int, want int64) script.Reservation {
	tr.Helper()
	tr.seqs[node]++
	return tr.ask(node, want)
}
