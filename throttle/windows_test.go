package throttle

import (
	"math/big"
	"testing"
	"time"

	"dispatcher/throttle/limit"
)

// The part of the bucket before that still counts is rounded up: never in favour
// of who asks.
func TestSlidingWindowCounterRoundsAgainstTheCaller(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ left, want int64 }{ // 10 units in 1.01 s before
		{1_009_999, 0},
		{707_001, 2},
		{707_000, 3},
		{706_999, 3},
		{606_001, 3},
		{606_000, 4},
		{1, 9},
	} {
		tr := newTrial(t, "", algorithm(limit.SlidingWindowCounter), contract(10), 1)
		length := limit.Windowed(tr.c).Microseconds()
		tr.pass(2*length - tr.now%length - 5_000 - notice) // shortly before a bucket's end
		if got := tr.reserve(0, 10).Schedule.Given; got != 10 {
			t.Fatalf("got %d units at first, want 10", got)
		}
		tr.pass(5_000 + length - tc.left)
		if got := tr.reserve(0, 10).Schedule.Given; got != tc.want {
			t.Errorf("with %d µs of the bucket before covered: got %d units, want %d", tc.left, got, tc.want)
		}
	}
}

// Where a script's numbers are too short for the part to be exact, it is rounded up
// as well, by less than a unit: also where it is hardly more than a whole number.
func TestSlidingWindowCounterRoundsLargeNumbersUp(t *testing.T) {
	t.Parallel()
	c := contractOf(ordinaryCap, limit.MaxWindow)
	tr := newTrial(t, "", algorithm(limit.SlidingWindowCounter), c, 1)
	length := limit.Windowed(c).Microseconds()
	tr.pass(2*length - tr.now%length - 5_000 - notice)
	if got := tr.grant(0, c.Cap).Schedule.Given; got != c.Cap {
		t.Fatalf("got %d units at first, want %d", got, c.Cap)
	}
	tr.pass(5_000)
	roll, taken := diceOf(1), int64(0)
	for range 50 {
		left := length - (tr.now+notice)%length
		hardly := ((left-1-roll(length/60))*c.Cap/length)*length/c.Cap + 1 // covered is then a whole number of units and a bit
		tr.pass(left - hardly)
		taken += tr.grant(0, c.Cap).Schedule.Given
		part := new(big.Int).Mul(big.NewInt(c.Cap), big.NewInt(length-(tr.now+notice)%length))
		free := c.Cap - part.Add(part, big.NewInt(length-1)).Div(part, big.NewInt(length)).Int64()
		if taken > free || taken < free-1 {
			t.Fatalf("%d µs before the bucket's end: got %d units, want %d or one less", length-(tr.now+notice)%length, taken, free)
		}
	}
}

// logs are the algorithms that keep runs.
func logs() []limit.Algorithm {
	return []limit.Algorithm{algorithm(limit.SlidingWindowLog), algorithm(limit.SlidingWindowList)}
}

// A run counts whole until it has left the window, to the µs.
func TestARunCountsUntilItHasLeftTheWindow(t *testing.T) {
	t.Parallel()
	for _, a := range logs() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, "", a, contract(10), 1)
			length := limit.Windowed(tr.c).Microseconds()
			tr.pass(2 * length)
			tr.reserve(0, 4)
			tr.pass(1_000)
			tr.reserve(0, 9)
			if got := tr.reserve(0, 1); got.Schedule.Given != 0 || got.Wait != limit.Windowed(tr.c)-time.Millisecond {
				t.Errorf("got %d units more in a full window, and a wait of %v", got.Schedule.Given, got.Wait)
			}
			if got := tr.reserve(0, 6); got.Wait != limit.Windowed(tr.c) {
				t.Errorf("got a wait of %v for more than the oldest run, want %v", got.Wait, limit.Windowed(tr.c))
			}
			tr.pass(length - 1_001)
			if got := tr.reserve(0, 10); got.Schedule.Given != 0 || got.Wait != 1_001*time.Microsecond {
				t.Errorf("1 µs too early: got %d units and a wait of %v", got.Schedule.Given, got.Wait)
			}
			tr.pass(1)
			if got := tr.reserve(0, 10); got.Schedule.Given != 4 {
				t.Errorf("got %d units when a run of 4 had left, want 4", got.Schedule.Given)
			}
			tr.pass(999)
			if got := tr.reserve(0, 10); got.Schedule.Given != 0 {
				t.Errorf("got %d units 1 µs before the second run had left", got.Schedule.Given)
			}
			tr.pass(1)
			if got := tr.reserve(0, 10); got.Schedule.Given != 6 {
				t.Errorf("got %d units when a run of 6 had left, want 6", got.Schedule.Given)
			}
			tr.mustKeep()
		})
	}
}

// Redis keeps one entry a reservation. However many have left the window, the
// next call gets all that is free, and no call removes more than a thousand.
func TestRunsAreForgottenInBoundedWork(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, a := range logs() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			const units, dropped = 1200, 1000
			tr := newTrial(t, "", a, contract(units), 1)
			length := limit.Windowed(tr.c).Microseconds()
			tr.pass(2 * length)
			for range units {
				tr.reserve(0, 1)
				tr.pass(1)
			}
			tr.mustHold(units)
			for _, entries := range []int64{units + 1 - dropped, 2} { // the newest one that has left stays
				tr.pass(length)
				if got := tr.reserve(0, units).Schedule.Given; got != units {
					t.Errorf("got %d units of an empty window, want %d", got, units)
				}
				tr.mustHold(entries)
			}
			tr.mustKeep()
		})
	}
}

// mustHold wants so many entries in the state.
func (tr *trial) mustHold(entries int64) {
	tr.Helper()
	if got := tr.rdb.LLen(tr.Context(), tr.nodes[0].Keys.State).Val(); got != entries {
		tr.Errorf("Redis holds %d runs, want %d", got, entries)
	}
}
