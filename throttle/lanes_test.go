package throttle

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"dispatcher/internal/bubbles"
	"dispatcher/throttle/internal/binding"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/inquiry"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// laned is a fleet whose nodes have jobs of lanes, on a simulated clock. Each node asks as the reserving goroutine does: a block for
// a lane, when it is its turn.
type laned struct {
	*trial

	shares []float64
	bulk   int   // so many nodes have jobs of the last lane, without end
	late   int64 // µs by which these ask later than they might: their way to Redis is long
	nodes  []lanedNode
	calls  int
	got    []int           // units of each lane
	waits  []time.Duration // of the jobs of the first lane, from their arrival to their slots
}

type lanedNode struct {
	jobs   []int64 // arrivals of the jobs of the first lane that wait
	places []script.Place
	due    []int64 // when each lane asks again
	last   []int64 // its last slot
}

func newLaned(t *testing.T, capacity int64, nodes int, shares ...float64) *laned {
	t.Helper()
	tr := newTrial(t, "", algorithm(limit.TokenBucket), contract(capacity), nodes)
	tr.since = tr.now // no node is young for long
	tr.pass(3_000_000)
	f := &laned{trial: tr, shares: shares, bulk: nodes, got: make([]int, len(shares))}
	for range nodes {
		f.nodes = append(f.nodes, lanedNode{places: make([]script.Place, len(shares)), due: make([]int64, len(shares)), last: make([]int64, len(shares))})
	}
	return f
}

// askIn asks for a lane's jobs of these costs on a node, which has a place in the lane's queue.
func (tr *trial) askIn(l script.Lane, node int, place *script.Place, costs []int64) script.Reservation {
	tr.Helper()
	tr.lane, tr.places[node] = l, *place
	_, b := tr.reserveJobs(node, costs)
	*place = tr.places[node]
	return b
}

// askFor asks for a block of a lane's jobs on a node.
func (f *laned) askFor(node, lane int, want int64) {
	f.Helper()
	const ahead, prefetch = 40_000, 10_000
	n := &f.nodes[node]
	l := script.Lane{Number: lane, MinShares: f.shares}
	if lane > 0 {
		l.Reach = lastReach
	}
	f.calls++
	b := f.askIn(l, node, &n.places[lane], slices.Repeat([]int64{1}, int(want)))
	for j := range b.Schedule.Given {
		at := b.Schedule.At(j)
		f.got[lane]++
		n.last[lane] = at
		if lane == 0 {
			f.waits = append(f.waits, time.Duration(at-n.jobs[j])*time.Microsecond)
		}
	}
	if lane == 0 {
		n.jobs = n.jobs[b.Schedule.Given:]
	}
	n.due[lane] = f.now + 5_000
	switch b.Schedule.Given {
	case 0:
		n.due[lane] = f.now + max(1_000, b.Wait.Microseconds())
		if lane > 0 {
			n.due[lane] += f.late
		}
	case want:
		n.due[lane] = max(n.due[lane], n.last[lane]-prefetch-int64(len(f.shares)-1-lane)*ahead)
	}
	if l.Reach > 0 && n.last[lane]-f.now > ahead { // it was owed
		n.due[lane] = f.now + 20_000
	}
}

// run lets jobs of the first lane come to these nodes, at so many a second, beside those of the last lane.
func (f *laned) run(d time.Duration, rate int, to ...int) {
	f.Helper()
	const step = 1_000
	block := max(1, f.c.Cap/50)
	arrived := 0
	begin := f.now
	for end := f.now + d.Microseconds(); f.now < end; f.pass(step) {
		for int64(arrived) < (f.now-begin)*int64(rate)/1_000_000 {
			node := to[arrived%len(to)]
			f.nodes[node].jobs = append(f.nodes[node].jobs, f.now)
			arrived++
		}
		for i := range f.nodes {
			node := (i + int(f.now/step)) % len(f.nodes) // they take turns to be the first one
			n := &f.nodes[node]
			switch {
			case len(n.jobs) > 0 && n.due[0] <= f.now:
				f.askFor(node, 0, min(block, int64(len(n.jobs))))
			case node < f.bulk && n.due[len(f.shares)-1] <= f.now:
				f.askFor(node, len(f.shares)-1, block)
			}
		}
	}
}

// A job of the first lane waits for no block of the last one, on however many nodes, and wherever it comes to.
func TestTheFirstLaneFindsRoom(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for name, to := range map[string][]int{"spread": {0, 1, 2, 3, 4, 5, 6, 7}, "on one node": {3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newLaned(t, 300, 8, 0, 0.1)
			f.run(time.Second, 0, 0)
			f.got = make([]int, 2)
			f.run(10*time.Second, 50, to...)
			slices.Sort(f.waits)
			p99 := f.waits[len(f.waits)*99/100]
			t.Logf("%d jobs waited %v at 99 %%; %d of the last lane, %d calls", len(f.waits), p99, f.got[1], f.calls)
			if p99 > 60*time.Millisecond {
				t.Errorf("got a wait of %v for 99 of 100 jobs, want 60 ms at most", p99)
			}
			if all := f.got[0] + f.got[1]; all < 2900 {
				t.Errorf("got %d units in 10 s, want 2,960", all)
			}
		})
	}
}

// Where the first lane takes all there is, the last one gets its min share of the fleet's slots.
func TestALaneGetsItsMinShareOfTheFleet(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, row := range []struct {
		name  string
		cap   int64
		nodes int
		share float64
		to    []int // where jobs of the first lane come to
		bulk  int   // nodes that have jobs of the last lane; 0: all
		late  int64
	}{
		{"three nodes", 300, 3, 0.1, []int{0, 1, 2}, 0, 0},
		{"three nodes, urgent jobs on one", 300, 3, 0.1, []int{0}, 0, 0},
		{"eight nodes", 300, 8, 0.1, []int{0, 1, 2, 3, 4, 5, 6, 7}, 0, 0},
		{"eight nodes, a half", 300, 8, 0.5, []int{0, 1, 2, 3, 4, 5, 6, 7}, 0, 0},
		{"one node, a third", 300, 1, 0.33, []int{0}, 0, 0},
		{"a half", 300, 3, 0.5, []int{0, 1, 2}, 0, 0},
		{"a half, urgent jobs on one", 300, 3, 0.5, []int{1}, 0, 0},
		{"a twentieth", 300, 3, 0.05, []int{0, 1, 2}, 0, 0},
		{"one node of sixteen has those of the last lane", 300, 16, 0.1, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 1, 0},
		{"20 a second, one node of sixteen has those of the last lane", 20, 16, 0.1, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 1, 0},
		{"20 a second, a half", 20, 3, 0.5, []int{0, 1, 2}, 0, 0},
		{"6 a second, a third", 6, 2, 0.3, []int{0}, 0, 0},
		{"20 a second, that node is far from Redis", 20, 16, 0.1, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 1, 60_000},
		{"20 a second, that node is far from Redis, a third", 20, 16, 0.33, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 1, 60_000},
		{"none", 300, 3, 0, []int{0, 1, 2}, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := newLaned(t, row.cap, row.nodes, 0, row.share)
			f.bulk, f.late = cmp.Or(row.bulk, row.nodes), row.late
			f.run(2*time.Second, int(2*row.cap), row.to...)
			f.got = make([]int, 2)
			f.run(10*time.Second, int(2*row.cap), row.to...)
			all := f.got[0] + f.got[1]
			share := float64(f.got[1]) / float64(all)
			t.Logf("the last lane got %d of %d, %.3f; %d calls", f.got[1], all, share, f.calls)
			if share < row.share-0.02 || share > row.share+0.02 {
				t.Errorf("got %.3f for the last lane, want %.2f", share, row.share)
			}
			if want := row.cap * 10; int64(all) < want*97/100 {
				t.Errorf("got %d units in 10 s, want %d", all, want)
			}
		})
	}
}

// Nodes that leave with a place in the queue, killed or not, leave their units to those that stay.
func TestNodesThatLeftDoNotBlockTheQueue(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for name, leave := range map[string]func(f *laned, node int){
		"killed":  func(*laned, int) {},
		"stopped": (*laned).signOff,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newLaned(t, 3000, 4, 0, 0.1)
			waiting := func() (nodes int) {
				for _, n := range f.nodes[1:] {
					nodes += countInt(n.places[1].Taken)
				}
				return nodes
			}
			for end := f.now + 10_000_000; f.now < end && (f.got[1] < 3000 || waiting() < 3); {
				f.run(time.Millisecond, 0, 0)
			}
			if waiting() < 3 {
				t.Fatalf("got %d nodes in the queue, want all three that are to leave", waiting())
			}
			for node := range f.nodes[1:] {
				leave(f, node+1)
			}
			f.bulk = 1
			f.run(time.Second, 0, 0)
			f.got[1] = 0
			f.run(time.Second, 0, 0)
			if f.got[1] < 2700 {
				t.Errorf("got %d units for the node that stayed in the second second, want about 3,000", f.got[1])
			}
		})
	}
}

// signOff has a node leave as at a graceful end: it gives the place of its last lane up.
func (f *laned) signOff(node int) {
	f.Helper()
	last := len(f.shares) - 1
	f.lane, f.places[node] = script.Lane{Number: last, Reach: lastReach, MinShares: f.shares}, f.nodes[node].places[last]
	f.ask(node, 0)
}

// The lane that waits is chosen as its min share says, on a node that decides alone: most urgent first, and those behind as they are
// owed.
func TestANodeGivesTurnsByLane(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		shares := []float64{0, rapid.Float64Range(0, 0.4).Draw(rt, "second"), rapid.Float64Range(0, 0.4).Draw(rt, "third")}
		l, err := New(Options{Namespace: "ns", Name: "provider", Limit: limit.Spec{Terms: specOf(contract(300)).Terms, Scope: limit.ScopeNode}, MinShares: shares})
		if err != nil {
			rt.Fatal(err)
		}
		now := time.Now()
		r := &reserver{Limiter: l, known: seeded(contract(300)), kind: algorithm(limit.TokenBucket), lanes: make([]lane, len(shares))}
		r.clock.Epoch, r.answeredAt, r.calledAt = 1, now, now
		got, all := make([]int64, len(shares)), int64(0)
		for range 400 {
			r.turn = inquiry.New[Lanes, Room](7)
			r.ready = 7
			next, _ := r.nextTurn(now)
			units := int64(rapid.IntRange(1, 6).Draw(rt, "units"))
			got[next], all = got[next]+units, all+units
			r.pay(next, units)
		}
		for i, share := range shares[1:] {
			if want := share * float64(all); float64(got[i+1]) < want-12 || float64(got[i+1]) > want+12 {
				rt.Fatalf("lane %d got %d of %d units, want %.0f", i+1, got[i+1], all, want)
			}
		}
	})
}

// Jobs that come into another lane end the wait for a turn.
func TestJobsOfAnotherLaneEndTheWait(t *testing.T) {
	t.Parallel()
	l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Limit: specOf(contract(300))})
	if err != nil {
		t.Fatal(err)
	}
	more := make(chan struct{}, 1)
	more <- struct{}{}
	go func() { <-l.turns }()                                            // nobody answers
	if _, err := l.Turn(context.Background(), 2, more); err != ErrMore { //nolint:errorlint // it is this error
		t.Errorf("got %v, want ErrMore", err)
	}
}

// A lane that nobody asks for is owed nothing, and nobody leaves it units.
func TestALaneThatDoesNotWaitIsOwedNothing(t *testing.T) {
	t.Parallel()
	f := newLaned(t, 300, 2, 0, 0.5)
	for range 600 { // one node alone, and jobs of the first lane alone
		if n := &f.nodes[0]; n.due[0] <= f.now {
			n.jobs = append(n.jobs, f.now, f.now, f.now, f.now, f.now, f.now)
			f.askFor(0, 0, 6)
		}
		f.pass(5_000)
	}
	before := f.got[0]
	f.askFor(1, 1, 6) // it finds no credit
	if f.got[1] > 0 {
		t.Errorf("got %d units for a lane that comes to a full timeline, want none", f.got[1])
	}
	if before < 850 {
		t.Errorf("got %d units in 3 s, want 890", before)
	}
}

// While a lane has jobs it holds slots further ahead than the lanes behind it reach.
func TestALaneReservesFurtherThanThoseBehindItReach(t *testing.T) {
	t.Parallel()
	l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: "n", Limit: specOf(contract(300)), MinShares: []float64{0, 0.1, 0.1}})
	if err != nil {
		t.Fatal(err)
	}
	r := &reserver{Limiter: l, known: seeded(contract(300)), kind: algorithm(limit.TokenBucket), lanes: make([]lane, 3)}
	horizon := r.known.Horizon
	if got := r.laneReach(0); got != 0 {
		t.Errorf("got a reach of %v for the first lane, want up to the horizon", got)
	}
	if got, want := r.laneReach(1), lastReach+(horizon-lastReach)/2; got != want {
		t.Errorf("got a reach of %v for the second lane, want %v", got, want)
	}
	if got := r.laneReach(2); got != lastReach {
		t.Errorf("got a reach of %v for the last lane, want %v", got, lastReach)
	}
	for i := range 2 {
		if got, next := r.prefetch(i), r.laneReach(i+1); got <= next {
			t.Errorf("lane %d reserves again %v before its last slot, want more than the reach of the next one, %v", i, got, next)
		}
	}
	if got := r.prefetch(2); got != prefetch {
		t.Errorf("the last lane reserves again %v before its last slot, want %v", got, prefetch)
	}
}

// Neither lane stops the other one, whatever their jobs count and however slow the limit is, and each gets its part.
func TestNeitherLaneStops(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, row := range []struct {
		name   string
		cap    int64
		window time.Duration
		costs  []int64 // of the jobs of each lane
		share  float64
	}{
		{"large and small", 60, time.Second, []int64{1, 50}, 0.3},
		{"small and large", 60, time.Second, []int64{50, 1}, 0.3},
		{"large", 300, time.Second, []int64{50, 50}, 0.3},
		{"6 a minute", 6, time.Minute, []int64{1, 1}, 0.3},
		{"20 a minute", 20, time.Minute, []int64{1, 1}, 0.1},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := contract(row.cap)
			c.Window, c.MaxCost = row.window, slices.Max(row.costs)
			tr := newTrial(t, "", algorithm(limit.TokenBucket), c, 2)
			tr.since = tr.now
			tr.pass(3_000_000)
			var due, got, half [2]int64
			var places [2]script.Place
			begin, lasts := tr.now, max(100*time.Second, 20*row.window).Microseconds()
			for step := max(1_000, lasts/40_000); tr.now < begin+lasts; tr.pass(step) {
				if tr.now < begin+lasts/2 {
					half = got
				}
				for lane := range 2 { // each node has jobs of one lane
					if due[lane] > tr.now {
						continue
					}
					l := script.Lane{Number: lane, MinShares: []float64{0, row.share}}
					if lane > 0 {
						l.Reach = lastReach
					}
					b := tr.askIn(l, lane, &places[lane], []int64{row.costs[lane]})
					got[lane] += b.Schedule.Given
					due[lane] = tr.now + min(4_000_000, max(5_000, b.Wait.Microseconds()))
				}
			}
			late := [2]int64{got[0] - half[0], got[1] - half[1]}
			part := float64(late[1]) / float64(max(1, late[0]+late[1]))
			t.Logf("in the second half the lanes got %d and %d units, %.3f", late[0], late[1], part)
			if part < row.share-0.05 || part > row.share+0.15 {
				t.Errorf("got %.3f of the units for the second lane, want %.2f", part, row.share)
			}
		})
	}
}

// Where units are granted for now, and where a full bucket refuses jobs, the lanes of a node have one queue, and the last lane
// reaches as far as the first.
func TestABucketThatRefusesHasOneQueue(t *testing.T) {
	t.Parallel()
	refusing := specOf(contract(300))
	refusing.Algorithm, refusing.Bucket = limit.LeakyBucket, limit.Bucket{Capacity: 50, WhenFull: limit.FullRefuse}
	log := specOf(contract(300))
	log.Algorithm = limit.SlidingWindowLog
	for name, row := range map[string]struct {
		spec limit.Spec
		one  bool
	}{"leaky_bucket that refuses": {refusing, true}, "sliding_window_log": {log, true}, "token_bucket": {specOf(contract(300)), false}} {
		l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Limit: row.spec, MinShares: []float64{0, 0.5}})
		if err != nil {
			t.Fatal(err)
		}
		r := &reserver{Limiter: l, known: row.spec.Settings(), kind: algorithm(l.State().Settings.Algorithm), lanes: make([]lane, 2)}
		if got := r.oneQueue(); got != row.one {
			t.Errorf("%s: got one queue: %v, want %v", name, got, row.one)
		}
		if got := r.laneOfCall(1); row.one != (got.Reach == 0 && got.MinShares == nil) {
			t.Errorf("%s: got %+v for the script", name, got)
		}
	}
}

// Jobs of two lanes that ask again wait until their lanes may ask, also where one is owed a unit.
func TestJobsThatAskAgainDoNotSpin(t *testing.T) {
	t.Parallel()
	bubbles.Test(t, func(t *testing.T) {
		spec := specOf(contract(300))
		l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Limit: spec, MinShares: []float64{0, 0.5}})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		r := &reserver{Limiter: l, known: seeded(contract(300)), kind: algorithm(limit.TokenBucket), lanes: make([]lane, 2), learned: true}
		r.clock.Origin = now
		r.clock.Observe(clock.Reading{Asked: now, Answered: now, Now: 1_000_000, Epoch: 1})
		r.bindings, r.calledAt = make([]binding.Share, 1), now
		r.lanes[1].credit = 2
		calls := 0
		l.reserve = func(_ context.Context, a script.Ask) (script.Reservation, error) {
			calls++
			time.Sleep(time.Millisecond)
			return script.Reservation{Now: 1_000_000 + time.Since(now).Microseconds(), Epoch: 1, Wait: 500 * time.Millisecond, Settings: a.Known, Schedule: clock.Schedule{Units: 1, Period: 1}}, nil
		}
		for lane := range 2 {
			r.again = append(r.again, inquiry.New[Request, Slot](Request{Lane: lane, Cost: 1}))
		}
		for end := now.Add(2 * time.Second); time.Now().Before(end); {
			time.Sleep(max(time.Microsecond, r.step(t.Context(), time.Now())))
			if calls > 100 {
				t.Fatal("got 100 calls to Redis within two seconds, want one for each lane each 500 ms")
			}
		}
		if calls < 4 {
			t.Errorf("got %d calls, want some for each lane", calls)
		}
	})
}
