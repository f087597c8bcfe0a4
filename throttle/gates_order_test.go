package throttle

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// gatesOf300 is a fleet of nodes under an account of 300 units a second for jobs of two units at
// most, and senders with so many jobs a second.
func gatesOf300(t *testing.T, nodes int, sender int64, change func(*limit.Contract)) *gatesRun {
	t.Helper()
	mini := miniredis.RunT(t)
	r := newGatesRun(t, patient(t, mini.Addr()), mini, limit.TokenBucket, scriptOf(limit.TokenBucket), diceOf(1))
	flush(t, r.rdb)
	c := contract(300)
	c.MaxCost = 2
	change(&c)
	r.set, r.nodes = seededBy(limit.TokenBucket, c), nil
	r.gates = []limit.Settings{gateOf(sender, time.Second, 1), gateOf(sender, time.Second, 1)}
	for range nodes {
		r.nodes = append(r.nodes, r.fresh())
	}
	for range 3 {
		r.pollAll()
		r.pass(5_000_000)
	}
	return r
}

// from is a job of one unit that a sender's gate counts.
func from(sender string) Request {
	return Request{Cost: 1, Passes: []Passed{{Value: Value{Gate: 0, Hash: HashOf(sender)}, Units: 1}}}
}

// The oldest job that no gate holds up is not passed over, where calls in flight leave room for
// one job at a time and skipped slots lie before those that are long enough for it.
func TestTheOldestJobIsNotPassedOver(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	const room = 40
	r := gatesOf300(t, 2, 20, func(c *limit.Contract) { c.MaxInFlight = room })
	oldest, younger, call := 0, 0, int64(0)
	var out []int64 // slots of the other node
	jobs := append([]Request{{Cost: 2}}, make([]Request, 10)...)
	for i := range jobs[1:] {
		jobs[1+i].Cost = 1
	}
	ask := func(n *gatesNode, jobs []Request, busy int) script.Reservation {
		call++
		return r.reserve(n, jobs, nil, func(a *script.Ask) { a.Busy, a.Hold, a.Call = int64(busy), 2*time.Second, call })
	}
	for end := r.now + 10_000_000; r.now < end; {
		for len(out) > 0 && out[0]+20_000 < r.now {
			out = out[1:]
		}
		for _, g := range ask(r.nodes[1], []Request{from("s"), from("s"), from("s"), from("s")}, len(out)).Choice.Granted {
			out = append(out, g.At)
		}
		for range 4 {
			for _, g := range ask(r.nodes[0], jobs, room-len(out)-1).Choice.Granted {
				if g.Job == 0 {
					oldest++
				} else {
					younger++
				}
			}
			r.pass(10_000)
		}
	}
	if oldest < 500 || younger > 0 {
		t.Errorf("got the oldest job of two units granted %d times and younger ones of one unit %d times, want 500 at least and none", oldest, younger)
	}
}

// A job that only the account holds up keeps its place in the queue, also beside one that a gate
// holds up.
func TestAGateCostsNoOtherJobItsPlace(t *testing.T) {
	t.Parallel()
	r := gatesOf300(t, 2, 10, func(*limit.Contract) {})
	r.reserve(r.nodes[1], []Request{from("s"), from("s")}, nil, func(*script.Ask) {}) // slots between these are skipped
	r.reserve(r.nodes[1], []Request{from("q"), from("q")}, nil, func(*script.Ask) {})
	fill := make([]Request, 60)
	for i := range fill {
		fill[i].Cost = 2
	}
	for range 3 {
		r.reserve(r.nodes[1], fill, nil, func(*script.Ask) {})
	}
	for _, jobs := range [][]Request{{{Cost: 2}}, {{Cost: 2}, from("s")}} {
		b := r.reserve(r.nodes[0], jobs, nil, func(a *script.Ask) { a.Since, a.Read = r.now-5_000_000, r.now })
		if b.Schedule.Given > 0 || b.Wait <= 0 || !b.Place.Taken {
			t.Errorf("got %d units, a wait of %v and place %+v for %d jobs, want none, a wait and a place", b.Schedule.Given, b.Wait, b.Place, len(jobs))
		}
	}
}

// A bucket that refuses turns no job away that a gate alone holds up: the job waits for the gate.
func TestAFullBucketTurnsNoJobAwayForAGate(t *testing.T) {
	t.Parallel()
	r := gatesOf300(t, 1, 6, func(c *limit.Contract) { c.Cap = 20 })
	r.pass(1_000_000)
	b := r.reserve(r.nodes[0], []Request{from("s"), from("s")}, nil, func(a *script.Ask) {
		a.Reach, a.Refuses = 180*time.Millisecond, true // its slots lie up to 150 ms ahead, and the gate opens after 168
	})
	if len(b.Choice.Granted) != 1 || len(b.Choice.Refused) != 1 || b.Choice.Refused[0].Job != 1 {
		t.Errorf("got jobs %+v granted and %+v refused by a gate, want the first one and the second one", b.Choice.Granted, b.Choice.Refused)
	}
}

// Jobs of one value go in the order in which they are offered: none of one unit passes one of
// three units that finds no three free slots behind each other.
func TestJobsOfOneValueKeepTheirOrder(t *testing.T) {
	t.Parallel()
	r := gatesOf300(t, 2, 75, func(c *limit.Contract) { c.MaxCost = 3 })
	r.reserve(r.nodes[1], []Request{from("s"), from("q"), from("q"), from("q"), from("r"), from("r"), from("r")}, nil, func(*script.Ask) {})
	fill := make([]Request, 60)
	for i := range fill {
		fill[i].Cost = 3
	}
	r.reserve(r.nodes[1], fill, nil, func(*script.Ask) {})
	three := from("s")
	three.Cost = 3
	for _, asked := range []struct {
		jobs  []Request
		given int64
	}{{[]Request{three, from("s")}, 0}, {[]Request{from("s"), three}, 1}} { // each run of skipped slots has two
		if b := r.reserve(r.nodes[0], asked.jobs, nil, func(*script.Ask) {}); b.Schedule.Given != asked.given {
			t.Errorf("got the jobs %+v granted of %+v, want %d units", b.Choice.Granted, asked.jobs, asked.given)
		}
	}
}

// Where the oldest job finds too few slots, its node takes a place in the queue, and younger jobs
// get no slot that was skipped: with one now and then the node would never get its turn.
func TestTheOldestJobTakesAPlaceInTheQueue(t *testing.T) {
	t.Parallel()
	r := gatesOf300(t, 2, 150, func(*limit.Contract) {})
	r.reserve(r.nodes[1], []Request{from("s"), from("s")}, nil, func(*script.Ask) {}) // one slot lies between these
	fill := make([]Request, 60)
	for i := range fill {
		fill[i].Cost = 2
	}
	r.reserve(r.nodes[1], fill, nil, func(*script.Ask) {})
	for _, asked := range []struct {
		jobs  []Request
		given int64
	}{{[]Request{{Cost: 2}, {Cost: 1}}, 0}, {[]Request{{Cost: 1}, {Cost: 2}}, 1}} {
		b := r.reserve(r.nodes[0], asked.jobs, nil, func(a *script.Ask) { a.Since, a.Read = r.now-5_000_000, r.now })
		if b.Schedule.Given != asked.given || b.Place.Taken != (asked.given == 0) {
			t.Errorf("got %d units and place %+v for the jobs %+v, want %d, and a place without units", b.Schedule.Given, b.Place, asked.jobs, asked.given)
		}
	}
}

// A node whose jobs gates hold up takes no place in the queue: others would leave it slots.
func TestJobsThatGatesHoldUpTakeNoPlace(t *testing.T) {
	t.Parallel()
	r := gatesOf300(t, 1, 4, func(*limit.Contract) {})
	for i, want := range []int{1, 0} { // the gate opens after a quarter of a second
		b := r.reserve(r.nodes[0], []Request{from("s")}, nil, func(a *script.Ask) { a.Since, a.Read = r.now-5_000_000, r.now })
		if len(b.Choice.Granted) != want || len(b.Choice.Refused) != 1-want || b.Place.Taken || b.Wait > 0 {
			t.Errorf("got %+v granted, %+v refused, place %+v and a wait of %v in call %d, want a slot, then a refusal by the gate alone", b.Choice.Granted, b.Choice.Refused, b.Place, b.Wait, i)
		}
	}
}

// A job that its gate lets pass later does not cut the slots in two that the oldest job needs in a
// row, with a burst and without one.
func TestALargeJobIsNotCutOffByAGate(t *testing.T) {
	t.Parallel()
	for _, burst := range []int64{1, 10} {
		r := gatesOf300(t, 1, 20, func(c *limit.Contract) { c.Burst, c.MaxCost = burst, 50 })
		r.reserve(r.nodes[0], []Request{from("s"), from("q")}, nil, func(*script.Ask) {}) // both gates open after 50 ms
		r.pass(20_000)
		for range 3 {
			b := r.reserve(r.nodes[0], []Request{from("s"), from("q"), {Cost: 50}, {Cost: 1}}, nil, func(a *script.Ask) { a.Want = 50 })
			if b.Choice.Granted == nil || b.Choice.Granted[0].Job != 2 {
				t.Errorf("got %+v granted with a burst of %d, want the job of 50 units first", b.Choice.Granted, burst)
			}
			r.pass(250_000)
			r.reserve(r.nodes[0], []Request{from("s"), from("q")}, nil, func(*script.Ask) {})
			r.pass(20_000)
		}
	}
}
