package throttle

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/internal/bubbles"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/local"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// alone runs a limiter of scope node, without a Redis, until the test ends.
func alone(t *testing.T, c limit.Contract, warmUp time.Duration) *Limiter {
	t.Helper()
	l, err := New(Options{Namespace: "ns", Name: "provider", Limit: scopedSpec(c, warmUp)})
	if err != nil {
		t.Fatal(err)
	}
	run(t, l)
	return l
}

// A node that keeps the limit for itself keeps its exact pace, without a Redis.
func TestScopeNodeKeepsItsPace(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c := contract(300)
		l := alone(t, c, 0)
		at := spans(used(t, l, 21*time.Second), 10*time.Second)[1]
		if want := int(10 * time.Second / c.Spacing()); at < want-5 || at > want+1 {
			t.Errorf("got %d calls in ten seconds, want %d", at, want)
		}
		if err := l.State().Ready(); err != nil {
			t.Error(err)
		}
	})
}

// spans is how many of the times, which rise, lie in each span from the first one on.
func spans(at []time.Time, span time.Duration) (counts []int) {
	for _, t := range at {
		i := int(t.Sub(at[0]) / span)
		for len(counts) <= i {
			counts = append(counts, 0)
		}
		counts[i]++
	}
	return counts
}

// The rate rises while the limit warms up, from a third of it to the whole, and
// does so again after it was idle for as long.
func TestWarmUpRises(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		const warmUp = 30 * time.Second
		c := contract(300)
		l := alone(t, c, warmUp)
		for _, when := range []string{"after the start", "after idleness"} {
			rates := spans(used(t, l, 41*time.Second), 5*time.Second)[:8]
			for i := range rates {
				rates[i] /= 5
			}
			if !slices.IsSorted(rates[:7]) || rates[0] > 140 || rates[0] < 95 || min(rates[6], rates[7]) < 290 || max(rates[6], rates[7]) > 298 {
				t.Errorf("%s: got %v calls a second, want them to rise from about 110 to 297", when, rates)
			}
			t.Logf("%s: %v calls a second", when, rates)
			time.Sleep(warmUp + time.Second)
		}
	})
}

// Whatever is asked for and when, warm or cold, no window and guard holds more
// than the cap.
func TestScopeNodeNeverOver(t *testing.T) {
	t.Parallel()
	windows := 0
	rapid.Check(t, func(rt *rapid.T) {
		c := contract(rapid.Int64Range(1, 500).Draw(rt, "cap"))
		warmUp := time.Duration(rapid.SampledFrom([]int64{0, 1000, 30_000}).Draw(rt, "warm-up")) * time.Millisecond
		if warmUp == 0 {
			c.Burst = rapid.Int64Range(1, c.Cap).Draw(rt, "burst")
		}
		c.MaxCost = rapid.Int64Range(1, min(6, c.Cap-c.Burst+1)).Draw(rt, "max_cost")
		l := local.New(scopedSpec(c, warmUp), time.Unix(0, 0))
		now, slots := int64(local.Start), []int64{}
		for range rapid.IntRange(50, 300).Draw(rt, "reservations") {
			now += rapid.SampledFrom([]int64{10, 3_000, 20_000, 20_000, 2_000_000, 40_000_000}).Draw(rt, "gap")
			a := script.Ask{Nearest: nearest, Costs: rapid.SliceOfN(rapid.Int64Range(1, c.LargestCost()), 0, int(c.Cap)).Draw(rt, "costs")}
			for _, cost := range a.Costs {
				a.Want += cost
			}
			given := l.ReserveAt(now, a).Schedule
			before := int64(0)
			for _, cost := range a.Costs {
				if before+cost > given.Given {
					break
				}
				slots = append(slots, slices.Repeat([]int64{given.At(before)}, int(cost))...)
				before += cost
			}
			if before != given.Given {
				rt.Fatalf("%d of %d units are for no whole job", given.Given-before, given.Given)
			}
		}
		if !slices.IsSorted(slots) {
			rt.Fatal("slots are not in order")
		}
		for i := int(c.Cap); i < len(slots); i++ {
			if span := clock.Duration(slots[i] - slots[i-int(c.Cap)]); span < c.Window+c.Guard {
				rt.Fatalf("%d units span %v, want %v", c.Cap+1, span, c.Window+c.Guard)
			}
			windows++
		}
	})
	if windows == 0 {
		t.Error("nobody ever asked for more than the cap, which proves nothing")
	}
}

func TestScopeRefusals(t *testing.T) {
	t.Parallel()
	burst := contract(300)
	burst.Burst = 2
	for name, err := range map[string]error{
		"warm_up: 1s: is for scope node only":                  scoped(limit.ScopeCluster, contract(300), "", time.Second),
		"warm_up: 2h0m0s: must be from 0s to 1h0m0s":           scoped(limit.ScopeNode, contract(300), "", 2*time.Hour),
		"burst: 2: must be 1 with warm_up":                     scoped(limit.ScopeNode, burst, "", time.Second),
		"reserve: 30: is for scope cluster":                    scoped(limit.ScopeNode, withReserve(), "", 0),
		"algorithm: \"gcra\": must be token_bucket with scope": scoped(limit.ScopeNode, contract(300), "gcra", 0),
		"scope: \"planet\": must be cluster or node":           scoped("planet", contract(300), "", 0),
	} {
		if err == nil || len(err.Error()) < len(name) || err.Error()[:len(name)] != name {
			t.Errorf("got %v, want %s", err, name)
		}
	}
	if err := scoped(limit.ScopeNode, contract(300), "", 30*time.Second); err != nil {
		t.Error(err)
	}
}

// scoped validates a limit with a scope.
func scoped(scope limit.Scope, c limit.Contract, algorithm string, warmUp time.Duration) error {
	s := scopedSpec(c, warmUp)
	s.Scope, s.Algorithm = scope, algorithm
	return s.Validate()
}
