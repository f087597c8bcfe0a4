package throttle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/bubbles"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/lease"
	"dispatcher/throttle/internal/local"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// A job takes as many slots as it counts units, and goes at the first of them.
func TestAJobTakesAsManySlotsAsItCounts(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c := contract(1015)
		c.MaxCost = 6 // (1015 − 5) in 1.01 s: one in 1 ms
		l := begin(t, c, newModel().local("n", time.Millisecond))
		time.Sleep(2 * time.Second) // past the start
		if _, err := l.Turn(t.Context(), OneLane, nil); err != nil {
			t.Fatal(err)
		}
		slots := served(t, l, []int64{3, 6, 1, 2, 6, 6, 6}) // a block is 20 units
		if len(slots) != 6 {
			t.Fatalf("got %d slots, want six: the sixth job fills the block", len(slots))
		}
		for i, want := range []time.Duration{3 * time.Millisecond, 6 * time.Millisecond, time.Millisecond, 2 * time.Millisecond, 6 * time.Millisecond} {
			if got := slots[i+1].NotBefore.Sub(slots[i].NotBefore); got != want {
				t.Errorf("job %d: got its slot %v behind the one before it, want %v", i+1, got, want)
			}
		}
	})
}

// served asks for jobs of these costs, and returns the slots of the first ones.
func served(t *testing.T, l *Limiter, costs []int64) (slots []Slot) {
	t.Helper()
	var jobs []Request
	for _, cost := range costs {
		jobs = append(jobs, Request{Cost: cost})
	}
	answers, err := l.Reserve(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		if a.Slot.IsZero() {
			break
		}
		slots = append(slots, a.Slot)
	}
	return slots
}

// A job that counts more than any may is refused by its cost and the bound, and the others
// are served.
func TestAJobThatCountsTooMuchIsRefused(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c := contract(300)
		c.MaxCost = 6
		l := begin(t, c, newModel().local("n", time.Millisecond))
		time.Sleep(2 * time.Second) // past the start
		if _, err := l.Turn(t.Context(), OneLane, nil); err != nil {
			t.Fatal(err)
		}
		answers, err := l.Reserve(t.Context(), []Request{{Cost: 7}, {Cost: 6}})
		if err != nil {
			t.Fatal(err)
		}
		var refused *CostError
		if !errors.As(answers[0].Err, &refused) || refused.Cost != 7 || refused.MaxCost != 6 || refused.Limit != "provider" {
			t.Errorf("got %v, want the cost of 7 refused by the bound of 6", answers[0].Err)
		}
		if answers[1].Slot.IsZero() {
			t.Error("the job behind it got no slot")
		}
	})
}

// A job that missed its slot asks again for as many units.
func TestAgainAsksForTheJobsUnits(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c := contract(106)
		c.MaxCost = 6
		l := begin(t, c, newModel().local("n", time.Millisecond))
		time.Sleep(2 * time.Second) // past the start
		late, err := l.Again(t.Context(), Request{Cost: 6})
		if err != nil {
			t.Fatal(err)
		}
		next, err := l.Again(t.Context(), Request{Cost: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := next.NotBefore.Sub(late.NotBefore); got < 60*time.Millisecond {
			t.Errorf("got a slot %v behind a job of 6 units, want 60 ms at least", got)
		}
		if _, err := l.Again(t.Context(), Request{Cost: 7}); !errors.Is(err, ErrGivenUp) {
			t.Errorf("got %v for a job that counts too much, want it to go back", err)
		}
	})
}

// Whatever jobs count, an algorithm grants whole jobs, no window holds more units than it
// promises, and most of its share is used. A row that refuses so large a cost is tried with the largest that it takes,
// and one that refuses a burst without.
func costLaw(t *testing.T, addr string, a limit.Algorithm) {
	t.Helper()
	c := trialContract(a, time.Second)
	if c.Burst = 3; !a.Ahead || errorsIn(a, c) != nil {
		c.Burst = 1
	}
	c.MaxCost = 6
	for c.MaxCost > 1 && errorsIn(a, c) != nil {
		c.MaxCost--
	}
	tr := newTrial(t, addr, a, c, 3)
	roll, used := diceOf(1), int64(0)
	tr.pass(2 * limit.Windowed(c).Microseconds())
	begin := tr.now
	for end := begin + 10*c.Window.Microseconds(); tr.now < end; {
		costs := make([]int64, 1+roll(4))
		for i := range costs {
			costs[i] = 1 + roll(c.MaxCost)
		}
		jobs, b := tr.reserveJobs(int(roll(3)), costs)
		used += b.Schedule.Given
		if jobs < len(costs) {
			tr.pass(min(10_000, max(1_000, b.Wait.Microseconds())))
		}
	}
	tr.mustKeep()
	share := float64(used) / (float64(tr.now-begin) / float64(c.Window.Microseconds()) * float64(c.Cap))
	t.Logf("%s: %d units in the fullest window, %d are promised; %.3f of the cap used, %.3f is its share", a.Name, tr.found(), tr.worst, share, a.Share(c))
	if share < 0.9*a.Share(c) && addr == "" {
		t.Errorf("%s: used %.3f of the cap, and its share is %.3f", a.Name, share, a.Share(c))
	}
}

func TestAlgorithmsGrantWholeJobs(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, a := range embeddedAlgorithms() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			costLaw(t, "", a)
		})
	}
}

func TestAlgorithmsGrantWholeJobsReal(t *testing.T) {
	t.Parallel()
	server := realCell(t)
	for _, a := range limit.Algorithms() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			needsCell(t, a)
			costLaw(t, server.Addr, a)
		})
	}
}

// A node whose jobs are large begins them about as often as the other nodes on average begin
// jobs of one unit, which ask for two at a time.
func TestALargeJobIsNotStarved(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	const nodes = 8
	for _, row := range []struct {
		algorithm   string
		burst, cost int64
	}{
		{limit.GCRA, 15, 10},
		{limit.GCRA, 31, 30},
		{limit.SlidingWindowLog, 1, 30},
		{limit.SlidingWindowLog, 1, 50},
		{limit.SlidingWindowCounter, 1, 50},
		{limit.FixedWindow, 1, 50},
		{limit.TokenBucket, 1, 20},
	} {
		t.Run(fmt.Sprint(row.algorithm, " ", row.cost), func(t *testing.T) {
			t.Parallel()
			c := contract(60)
			c.Burst, c.MaxCost = row.burst, row.cost
			tr := newTrial(t, "", algorithm(row.algorithm), c, nodes)
			tr.since = tr.now
			tr.pass(3_000_000)
			roll, got := diceOf(1), make([]int64, nodes)
			due := make([]int64, nodes)
			for end := tr.now + 160_000_000; tr.now < end; tr.pass(1_000 + roll(9_000)) {
				for i, first := 0, int(roll(nodes)); i < nodes; i++ {
					i := (first + i) % nodes
					if tr.now < due[i] {
						continue
					}
					costs := []int64{1, 1}
					if i == 0 {
						costs = []int64{row.cost}
					}
					_, b := tr.reserveJobs(i, costs)
					got[i] += b.Schedule.Given
					due[i] = tr.now + max(5_000, b.Wait.Microseconds())
				}
			}
			tr.mustKeep()
			large := got[0] / row.cost
			t.Logf("%d jobs of %d units beside %v of one", large, row.cost, got[1:])
			small := int64(0)
			for _, n := range got[1:] {
				small += n
			}
			if small /= nodes - 1; 4*large < small || 2*small < large {
				t.Errorf("got %d large jobs, and %d of one unit on each other node, want at least a quarter as many, and at most twice as many", large, small)
			}
		})
	}
}

// Where units are granted for now, small jobs fill what a large one finds too few. So nearly
// all of a small cap is used, and the jobs of each cost get their turn.
func TestSmallJobsFillWhatALargeOneLeaves(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	const nodes, largest = 3, 6
	for _, name := range []string{limit.SlidingWindowLog, limit.GCRA} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := contract(20)
			if c.MaxCost = largest; name == limit.GCRA {
				c.Burst = largest
			}
			a := algorithm(name)
			tr := newTrial(t, "", a, c, nodes)
			tr.since = tr.now
			tr.pass(3_000_000)
			var waiting [nodes][]int64 // the costs of the jobs on each node, oldest first
			var due [nodes]int64
			var sent [largest + 1]int64
			next, used, begin := int64(0), int64(0), tr.now
			for end := tr.now + 60_000_000; tr.now < end; tr.pass(1_000) {
				for i := range nodes {
					if tr.now < due[i] {
						continue
					}
					for len(waiting[i]) < 1+jobsToFill {
						waiting[i] = append(waiting[i], 1+next%largest)
						next++
					}
					_, b := tr.reserveJobs(i, waiting[i])
					due[i] = tr.now + max(5_000, b.Wait.Microseconds())
					taken := make(map[int]bool)
					for _, one := range b.Choice.Granted {
						j := one.Job
						taken[j] = true
						sent[waiting[i][j]]++
						used += waiting[i][j]
					}
					left := waiting[i][:0]
					for j, cost := range waiting[i] {
						if !taken[j] {
							left = append(left, cost)
						}
					}
					waiting[i] = left
				}
			}
			tr.mustKeep()
			share := float64(used) / (float64(tr.now-begin) / 1e6 * float64(c.Cap))
			t.Logf("%.3f of the cap used, %.3f is its share; jobs sent by cost: %v", share, a.Share(c), sent[1:])
			if share < 0.985*a.Share(c) {
				t.Errorf("got %.3f of the cap used, want at least 0.985 of its share of %.3f", share, a.Share(c))
			}
			if least, most := slices.Min(sent[1:]), slices.Max(sent[1:]); 4*least < 3*most {
				t.Errorf("got %d jobs of one cost sent and %d of another, want at least three quarters as many", least, most)
			}
		})
	}
}

// A node gives up a reservation whose reply was lost once it knows that jobs may be larger:
// its slots lie too close for them. It gives up one as well that the script must have
// forgotten. Otherwise it asks again under the same number.
func TestALostReservationIsGivenUpForLargerJobs(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		from, to  int64
		ago       time.Duration
		seq, lost int64
	}{{1, 10, 0, 8, 0}, {10, 1, 0, 7, 5}, {10, 10, 0, 7, 5}, {10, 10, time.Minute, 8, 0}} {
		before, after := contract(300), contract(300)
		before.MaxCost, after.MaxCost = row.from, row.to
		l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: "n", Limit: specOf(before)})
		if err != nil {
			t.Fatal(err)
		}
		changed := seeded(after)
		changed.Changed = time.UnixMicro(5)
		l.reserve = func(context.Context, script.Ask) (script.Reservation, error) {
			return script.Reservation{Now: 10, Epoch: 1, Settings: changed}, nil
		}
		r := &reserver{Limiter: l, lanes: make([]lane, 1), clock: clock.Clock{Origin: time.Now()}, known: seeded(before), learned: true, seq: 7, lost: 5, lostAt: time.Now().Add(-row.ago)}
		r.call(t.Context(), 0, nil)
		if r.seq != row.seq || r.lost != row.lost {
			t.Errorf("from %d to %d units, lost %v ago: got number %d and %d lost, want %d and %d", row.from, row.to, row.ago, r.seq, r.lost, row.seq, row.lost)
		}
	}
}

// A lease gives no more than its part in a period, also where jobs are nearly as large as
// that, and the period is long.
func TestALeaseKeepsItsPartWithTheLargestJobs(t *testing.T) {
	t.Parallel()
	for _, cost := range []int64{1, 3_443, 50_000, 99_999, 100_000} {
		c := contractOf(10_000_000, limit.MaxWindow)
		c.Reserve, c.MaxNodes, c.MaxCost = 1_000_000, 10, cost
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1000, 0)
		s := lease.Lease{Until: now.Add(10 * time.Minute)}
		given := int64(0)
		for range 100 {
			given += cost * int64(len(s.Slots(seeded(c), now, aheadOfCall, []int64{cost, cost})))
		}
		if given > c.UnitsOfNode() {
			t.Errorf("jobs of %d: got %d units at once, and %d are in a period", cost, given, c.UnitsOfNode())
		}
	}
}

// After a restart, a node that keeps the limit for itself begins behind the largest job that
// the process before it may have called.
func TestScopeNodeBeginsBehindTheLargestJob(t *testing.T) {
	t.Parallel()
	c := contractOf(100, time.Minute)
	c.MaxCost = 10
	l := local.New(scopedSpec(c, 0), time.Unix(0, 0))
	units, period := c.Pace()
	if got, want := l.ReserveAt(local.Start, script.Ask{}).NotBefore-local.Start, c.Lateness.Microseconds()+clock.After(10, units, period); got < want {
		t.Errorf("got the first slot after %d µs, want %d", got, want)
	}
}

// Contracts whose largest job finds no room are refused by the field and the remedy.
func TestContractsTheLargestJobDoesNotFit(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		edit func(*limit.Terms)
		want string
	}{
		{func(c *limit.Terms) { c.MaxCost = -1 }, "max_cost: -1: must be at least 1"},
		{func(c *limit.Terms) { c.MaxCost = 301 }, "max_cost: 301: must be at most 300, which is what burst and reserve leave of the cap of 300"},
		{func(c *limit.Terms) { c.MaxCost, c.Burst = 200, 102 }, "max_cost: 200: must be at most 199, which is what burst and reserve leave of the cap of 300"},
		{func(c *limit.Terms) { c.MaxCost, c.Reserve, c.MaxNodes = 11, 30, 3 }, "max_cost: 11: must be at most 10, a node's part of the reserve"},
		{func(c *limit.Terms) { c.MaxCost, c.Algorithm = 6, limit.GCRA }, "max_cost: 6: must be at most the burst of 1, or the largest jobs would wait for ever"},
	} {
		terms := limit.Terms{Contract: contract(300)}
		row.edit(&terms)
		if err := terms.Validate(); err == nil || err.Error() != row.want {
			t.Errorf("got %v, want %s", err, row.want)
		}
	}
}

// The pace pays for the largest job on a timeline; an algorithm that counts at the time of
// the grant does not.
func TestTheShareThatTheLargestJobLeaves(t *testing.T) {
	t.Parallel()
	c := contract(10)
	c.MaxCost = 6
	for name, want := range map[string]float64{limit.TokenBucket: 0.495, limit.SlidingWindowLog: 0.990} {
		a, err := limit.AlgorithmNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Share(c); got < want-0.001 || got > want+0.001 {
			t.Errorf("%s: got a share of %.3f, want %.3f", name, got, want)
		}
	}
}
