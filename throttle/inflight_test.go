package throttle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"dispatcher/internal/bubbles"
	"dispatcher/internal/containers"
	"dispatcher/throttle/control"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// callsRun is a fleet under max_in_flight around the real script, in simulated time. Nodes
// ask, call, lose replies, die and come, and Redis forgets.
type callsRun struct {
	redisTime

	t     tester
	rdb   redis.UniversalClient
	text  string
	roll  dice
	set   limit.Settings
	nodes []*callsNode
	named int
	dead  []int64  // when the calls of dead nodes end
	late  []func() // polls that are still on their way
	over  string   // how the bound was passed
	began int
	slow  int64 // by how much more calls take than usual: then they take longer than all nodes need to poll
}

type callsNode struct {
	scripts script.Scripts
	seq     int64
	lost    int64
	calls   int64
	open    []int64 // when its calls end
	epoch   int64
	known   limit.Settings
	stepped bool // it has seen Redis's clock step, and did not say so yet
}

const (
	callsMost    = 10
	callsTimeout = 300 * time.Millisecond
)

func newCallsRun(t tester, rdb redis.UniversalClient, mini *miniredis.Miniredis, text string, roll dice) *callsRun {
	t.Helper()
	flush(t, rdb)
	c := contract(300)
	c.MaxInFlight, c.MaxCost = callsMost, 1+roll(3)
	r := &callsRun{redisTime: redisTime{mini: mini, now: 1_700_000_000_000_000}, t: t, rdb: rdb, text: text, roll: roll, set: seeded(c), slow: 1}
	if mini != nil {
		r.slow = 1 + 15*(roll(4)/3)
	}
	r.pass(0)
	for range 1 + roll(4) {
		r.nodes = append(r.nodes, r.fresh())
	}
	for _, n := range r.nodes {
		r.ask(n, nil, false)
	}
	r.pass(1_000_000) // past the cooldown of the start
	return r
}

func (r *callsRun) timeout() time.Duration { return time.Duration(r.slow) * callsTimeout }

func (r *callsRun) fresh() *callsNode {
	r.named++
	n := &callsNode{scripts: script.NewScripts(r.rdb, "calls", "provider", fmt.Sprint("node", r.named)), known: r.set, seq: 1}
	n.scripts.Reserving[limit.DefaultAlgorithm] = redis.NewScript(r.text)
	return n
}

// end takes out the calls that are over.
func (r *callsRun) end() {
	over := func(ends int64) bool { return ends <= r.now }
	r.dead = slices.DeleteFunc(r.dead, over)
	for _, n := range r.nodes {
		n.open = slices.DeleteFunc(n.open, over)
	}
}

// ask lets a node ask for jobs of these costs; without any it polls.
func (r *callsRun) ask(n *callsNode, costs []int64, lost bool) {
	r.end()
	want := int64(0)
	for _, c := range costs {
		want += c
	}
	busy := int64(len(n.open))
	if want == 0 {
		busy += n.lost
	}
	n.calls++
	question := script.Ask{
		Call: n.calls,
		Want: want, Costs: costs, Seq: n.seq, Retry: n.lost > 0, Epoch: n.epoch, Busy: busy, Hold: r.timeout() + limit.DefaultHorizon + limit.DefaultLateness,
		Identity: string(IdentityNone), Nearest: nearest, Learned: n.epoch != 0, Known: n.known, Stepped: n.stepped,
	}
	if want == 0 && lost { // it arrives later
		r.late = append(r.late, func() { _, _ = n.scripts.Reserve(contextOf(r.t), question) })
		return
	}
	b, err := n.scripts.Reserve(contextOf(r.t), question)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.mini == nil {
		r.now = max(r.now, b.Now)
	}
	n.epoch, n.known, n.stepped = b.Epoch, b.Settings, false
	if lost {
		n.lost = max(n.lost, int64(len(costs)))
		return
	}
	if want > 0 {
		n.seq++
		n.lost = 0
	}
	units := int64(0)
	for _, c := range costs {
		if units+c > b.Schedule.Given {
			break
		}
		slot := b.Schedule.At(units) - r.skew
		units += c
		r.began++
		n.open = append(n.open, slot+r.roll((set3ms+r.timeout()).Microseconds()))
	}
	r.keptBy(b)
}

// keptBy notes where a grant passed the bound.
func (r *callsRun) keptBy(b script.Reservation) {
	open := len(r.dead)
	for _, n := range r.nodes {
		open += len(n.open)
	}
	if b.Schedule.Given > 0 && b.Settings.MaxInFlight > 0 && int64(open) > b.Settings.MaxInFlight && r.over == "" {
		r.over = fmt.Sprintf("%d calls in flight, and %d may be", open, b.Settings.MaxInFlight)
	}
}

// bound is an operator who sets max_in_flight, or none.
func (r *callsRun) bound(most int64) {
	operator, err := control.NewControl(r.rdb, "calls", "provider")
	if err != nil {
		r.t.Fatal(err)
	}
	_, err = operator.Set(contextOf(r.t), control.Change{Values: parameters.Values{"max_in_flight": fmt.Sprint(most)}, By: "law"})
	if err != nil && !errors.Is(err, control.ErrUnchanged) && !errors.Is(err, control.ErrUnknownLimit) {
		r.t.Fatal(err)
	}
}

const set3ms = limit.DefaultLateness

func (r *callsRun) happen() {
	i := r.roll(int64(len(r.nodes)))
	n := r.nodes[i]
	switch p := r.roll(100); {
	case p < 60:
		costs := make([]int64, 1+r.roll(4))
		for i := range costs {
			costs[i] = 1 + r.roll(r.set.LargestCost())
		}
		r.ask(n, costs, r.roll(5) == 0)
	case p < 85:
		r.pass(r.slow * r.roll([]int64{2_000, 20_000, 100_000}[r.roll(3)]))
	case p < 89:
		r.ask(n, nil, r.roll(4) == 0)
	case p < 91:
		for _, call := range r.late {
			call()
		}
		r.late = nil
	case p < 93:
		r.bound([]int64{0, callsMost}[r.roll(2)])
	case p < 97: // killed
		r.end()
		r.dead = append(r.dead, n.open...)
		r.nodes[i] = r.fresh()
		r.ask(r.nodes[i], nil, false)
	case p < 98 && r.mini != nil: // each node reports the step with a poll, within the cooldown
		r.skew += []int64{-1, 1}[r.roll(2)] * r.roll(3_600_000_000)
		r.pass(0)
		for _, n := range r.nodes {
			n.stepped = true
			r.ask(n, nil, false)
		}
	default: // the same
		flush(r.t, r.rdb)
		for _, n := range r.nodes {
			r.ask(n, nil, false)
		}
	}
}

// play returns how the bound was passed; nothing if it was kept.
func (r *callsRun) play(ops int) string {
	for range ops {
		r.happen()
		if r.over != "" {
			return r.over
		}
	}
	return ""
}

// Whatever is lost, and whoever dies: no more calls are in flight than may be.
func inFlightLaw(t *testing.T, rdb redis.UniversalClient, mini *miniredis.Miniredis, ops int) {
	t.Helper()
	began, runs := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		r := newCallsRun(rt, rdb, mini, scriptOf(limit.TokenBucket), diceOf(rapid.Uint64().Draw(rt, "seed")))
		if over := r.play(ops); over != "" {
			rt.Fatal(over)
		}
		began, runs = began+r.began, runs+1
	})
	if began < callsMost*runs {
		t.Errorf("got %d calls in %d runs; so few prove nothing", began, runs)
	}
}

func TestNoMoreCallsInFlightThanMayBe(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	mini := miniredis.RunT(t)
	inFlightLaw(t, patient(t, mini.Addr()), mini, 150)
}

// The law has teeth.
func TestCallsInFlightLawBreaksWithout(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, m := range []struct {
		rule, from, to string
		first          uint64 // history: none before it breaks the law
	}{
		{rule: "the calls of the others", from: "and 0 or most - busy - sum", to: "and 0 or most - busy"},
		{rule: "the calls of this node", from: "and 0 or most - busy - sum", to: "and 0 or most - sum"},
		{rule: "the bound within a call", from: "if jobs >= most_jobs or", to: "if"},
		{rule: "what is granted now", from: "count = busy + jobs, ends", to: "count = busy, ends"},
		{rule: "the records that nobody kept before", from: "room_from = now + hold\n", to: "room_from = 0\n"},
		{rule: "the records that are lost", from: "redis.call('EXISTS', calls) == 0 or", to: ""},
		{rule: "that what was granted before finds room", from: "set.max_in_flight == 0 or old.max_in_flight > 0 and now >= room_from", to: "true"},
		{rule: "the order of a node's calls", from: "if number < newest_call then return end", to: "", first: 413},
		{rule: "the time that a dead node's calls last", from: "ends = now + hold, at", to: "ends = now + 1000, at"},
	} {
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			text := without(t, scriptOf(limit.TokenBucket), m.from, m.to)
			mini := miniredis.RunT(t)
			rdb := patient(t, mini.Addr())
			findHistory(t, m.first, 1000, func(roll dice) string { return newCallsRun(t, rdb, mini, text, roll).play(150) })
		})
	}
}

// A lost reservation that comes again for fewer jobs, and is lost again, may still come for
// all of them.
func TestAReplyMayBeLostTwice(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	r := newCallsRun(t, patient(t, mini.Addr()), mini, scriptOf(limit.TokenBucket), diceOf(1))
	r.set.MaxCost, r.slow = 2, 1
	flush(t, r.rdb)
	a, b, jobs := r.fresh(), r.fresh(), []int64{2, 2, 2, 2, 2, 2, 2, 2, 2, 2}
	r.nodes = []*callsNode{a, b}
	r.ask(a, nil, false)
	r.ask(b, nil, false)
	r.pass(5_000_000) // every node has polled meanwhile
	r.ask(a, jobs[:4], true)
	r.ask(a, jobs[:1], true)
	r.ask(b, jobs, false)
	r.ask(a, jobs[:4], false)
	if len(a.open) != 4 || len(b.open) != callsMost-4 || r.over != "" {
		t.Errorf("got %d calls on the node that lost its replies and %d on the other (%s), want 4 and %d", len(a.open), len(b.open), r.over, callsMost-4)
	}
}

// Nodes that wait come to an equal part, also where there are more nodes than calls.
func TestEachNodeGetsItsPartOfTheCallsInFlight(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, row := range []struct {
		most  int64
		nodes int
	}{{40, 3}, {2, 3}} {
		mini := miniredis.RunT(t)
		rdb := patient(t, mini.Addr())
		r := newCallsRun(t, rdb, mini, scriptOf(limit.TokenBucket), diceOf(1))
		r.set.MaxInFlight, r.set.MaxCost, r.slow = row.most, 1, 1
		flush(t, rdb)
		r.nodes = nil
		for range row.nodes {
			r.nodes = append(r.nodes, r.fresh())
		}
		r.ask(r.nodes[0], nil, false)
		r.pass(1_000_000)
		got := make([]int, row.nodes)
		for step := range int64(5_000) {
			for i, n := range r.nodes {
				r.end()
				if i > 0 && step < 200 { // the first one has all of them
					continue
				}
				if step%5 == int64(i) {
					before := r.began
					r.ask(n, []int64{1, 1, 1}, false)
					got[i] += r.began - before
				}
			}
			r.pass(4_000)
		}
		all := 0
		for _, n := range got {
			all += n
		}
		if most := float64(row.most) * 20 / 0.3; float64(all) < most {
			t.Errorf("%d calls for %d nodes: %d began, want at least %.0f, as many as calls of 300 ms leave room for", row.most, row.nodes, all, most)
		}
		for i, n := range got {
			if n*row.nodes*10 < all*8 {
				t.Errorf("%d calls for %d nodes: node %d began %d of %d, want at least four fifths of an equal part", row.most, row.nodes, i, n, all)
			}
		}
		t.Logf("%d calls for %d nodes: %v", row.most, row.nodes, got)
	}
}

func TestNoMoreCallsInFlightThanMayBeReal(t *testing.T) {
	t.Parallel()
	server := containers.Redis(t)
	rdb := patient(t, server.Addr)
	r := newCallsRun(t, rdb, nil, scriptOf(limit.TokenBucket), diceOf(1))
	few := func() bool { return r.began < 100 }
	for ops := 0; ops < 1_500 || few() && ops < 6_000; ops += 500 { // real time passes between them, so no two runs are alike
		if over := r.play(500); over != "" {
			t.Fatal(over)
		}
	}
	if few() {
		t.Errorf("got %d calls; so few prove nothing", r.began)
	}
}

// A node has no more slots out and calls open than max_in_flight, and asks again when one is
// over.
func TestASlotIsInFlightUntilItsCallIsOver(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c := contract(1000)
		c.MaxInFlight = 2
		l, err := New(Options{Namespace: "ns", Name: "provider", Node: "n", Limit: limit.Spec{Terms: limit.Terms{Contract: c}, Scope: limit.ScopeNode}})
		if err != nil {
			t.Fatal(err)
		}
		run(t, l)
		ask := func() (slots []Slot) {
			if _, err := l.Turn(t.Context(), OneLane, nil); err != nil {
				t.Fatal(err)
			}
			return served(t, l, []int64{1, 1, 1})
		}
		slots := ask()
		for len(slots) < 2 {
			slots = append(slots, ask()...)
		}
		time.Sleep(time.Second)
		if more := ask(); len(slots) != 2 || len(more) != 0 {
			t.Fatalf("got %d slots, and %d with two calls in flight, want 2 and none", len(slots), len(more))
		}
		for name, end := range map[string]func(Slot){
			"used":   func(s Slot) { l.Used(s, s.NotBefore) },
			"missed": func(s Slot) { l.Missed(s) },
			"unused": func(s Slot) { l.Unused(s) },
		} {
			end(slots[0])
			slots = slots[1:]
			begin := time.Now()
			var more []Slot
			for len(more) == 0 {
				more = ask()
			}
			if took := time.Since(begin); len(more) != 1 || took > 2*minGap {
				t.Errorf("%s: got %d slots after %v, want one at once", name, len(more), took)
			}
			slots = append(slots, more...)
		}
	})
}

// A slot whose caller has gone is free again.
func TestASlotWhoseCallerHasGoneIsFree(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		var granted atomic.Int64
		got := int64(0)
		ask := newModel().local("n", 2*time.Millisecond)
		l := begin(t, contract(300), func(ctx context.Context, a script.Ask) (script.Reservation, error) {
			b, err := ask(ctx, a)
			granted.Add(b.Schedule.Given)
			return b, err
		})
		time.Sleep(2 * time.Second) // past the start
		for i := range 40 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond) // some end while the script is asked
			if s, err := l.Again(ctx, Request{Cost: 1}); err == nil {
				got++
				l.Missed(s)
			}
			cancel()
			time.Sleep(time.Second)
		}
		if all := granted.Load(); got == 0 || got == all {
			t.Errorf("callers got %d of %d slots; that proves nothing", got, all)
		}
		if busy := l.busy.Load(); busy != 0 {
			t.Errorf("got %d slots in flight without a caller, want none", busy)
		}
	})
}

// With a poll, slots count that a reply may have granted that was lost; the reservation that
// comes again brings them itself.
func TestSlotsOfALostReplyCountUntilItComesAgain(t *testing.T) {
	t.Parallel()
	r := &reserver{Limiter: &Limiter{}, lanes: make([]lane, 1), lost: 3}
	r.busy.Store(2)
	if poll, again := r.inFlight(nil), r.inFlight(make([]request, 1)); poll != 5 || again != 2 {
		t.Errorf("got %d with a poll and %d with a reservation, want 5 and 2", poll, again)
	}
}
