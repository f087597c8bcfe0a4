package throttle

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// history plays one random history against the script and returns the first
// window over the cap, if there is one, and how many calls were made.
//
// Nodes reserve, sometimes slowly, and lose replies; operators change cap and
// burst, pause and resume; the key is deleted; Redis's clock steps.
func history(t tester, rdb redis.UniversalClient, with texts, roll dice, ops int) (over string, calls int) {
	c := limit.Contract{
		Cap: []int64{1, 3, 7, 50, 300, 1000}[roll(6)], Window: time.Second, Burst: 1,
		Guard: limit.DefaultGuard, Lateness: limit.DefaultLateness, Horizon: limit.DefaultHorizon,
	}
	if roll(2) == 0 {
		c.Burst = 1 + roll(c.Cap)
	}
	if roll(2) == 0 {
		c.MaxCost = 1 + roll(min(20, c.Cap-c.Burst+1))
	}
	f := newFleet(t, rdb, with, roll, 1+int(roll(4)), c)
	f.slews = roll(4) == 0
	if roll(3) == 0 {
		f.shares = someShares(roll)
	}
	f.poll()
	f.pass(600_000) // past the cooldown of the start
	for range ops {
		f.happen(c)
	}
	return f.over(c.Window), len(f.calls)
}

func (f *fleet) happen(c limit.Contract) {
	roll := f.dice
	n := f.nodes[roll(int64(len(f.nodes)))]
	switch p := roll(100); {
	case p < 3:
		f.slow(c)
	case p < 60:
		f.reserve(n, 1+roll(max(1, c.Cap/20)), roll(500), roll(500), roll(10) == 0)
	case p < 75:
		f.reserve(n, 1+roll(c.Cap), roll(20_000), roll(2_000), roll(5) == 0)
	case p < 92:
		f.pass(roll([]int64{1_000, 30_000, 300_000}[roll(3)]))
	case p < 94:
		f.slew()
	case p < 95: // a node is gone, and another one has come
		f.nodes[roll(int64(len(f.nodes)))] = f.fresh()
		f.poll()
	case p < 97:
		for range 1 + roll(3) { // often at once, by operators who correct themselves
			f.set(f.change(c))
		}
		if roll(4) == 0 {
			f.promote()
		}
		f.poll() // each node looks more often than a change may take to act
	case p < 98:
		f.lose()
	default:
		f.shift([]int64{-1, 1}[roll(2)] * (4_000 + roll([]int64{100_000, 5_000_000}[roll(2)])))
		f.poll()
	}
}

// slow has the provider's answers slow the limit down, block it, or leave it alone again.
func (f *fleet) slow(c limit.Contract) {
	s := limit.Slowdown{}
	if f.dice(4) > 0 {
		s = slowTo(c, float64(1+f.dice(150))/100, f.server)
	}
	if f.dice(4) == 0 {
		s.Until = f.server + f.skew + f.dice(1_000_000)
	}
	putSlowdown(f.t, f.rdb, f.keys.Limit, s)
}

// change draws what an operator may do: another cap, a burst or none, larger jobs, a pause;
// one of them or all; for good or for a while.
func (f *fleet) change(c limit.Contract) control.Change {
	ch := control.Change{Values: parameters.Values{}, By: "law", Force: true}
	capacity, burst, paused := c.Cap, int64(1), f.dice(4) == 0
	if f.dice(2) == 0 {
		capacity = 1 + f.dice(2*c.Cap)
	}
	if f.dice(2) == 0 {
		burst = 1 + f.dice(capacity)
	}
	if f.dice(3) == 0 {
		ch.For = time.Second + time.Duration(f.dice([]int64{1, 3_000, 29_000}[f.dice(3)]))*time.Millisecond
	}
	if f.dice(4) == 0 && !f.slews {
		guard := 2 + f.dice(89)
		ch.Values = spread(guard, 1+f.dice(guard-1)).Values
	}
	if f.dice(4) == 0 {
		ch.Values["max_cost"] = fmt.Sprint(1 + f.dice(1+capacity/4))
	}
	switch f.dice(5) {
	case 0:
		ch.Values["cap"] = fmt.Sprint(capacity)
	case 1:
		ch.Values["paused"] = fmt.Sprint(paused)
	default:
		ch.Values["cap"], ch.Values["burst"], ch.Values["paused"] = fmt.Sprint(capacity), fmt.Sprint(burst), fmt.Sprint(paused)
	}
	return ch
}

// slew lets Redis's clock run at another rate for a while, and the nodes work.
func (f *fleet) slew() {
	if !f.slews {
		return
	}
	ppm := []int64{2_000, 10_000, 83_333, -83_333}[f.dice(4)]
	for range f.dice(150) {
		n := f.nodes[f.dice(int64(len(f.nodes)))]
		f.reserve(n, 1+f.dice(10), 100, 100, false)
		step := 1_000 + f.dice(20_000)
		f.pass(step)
		f.shift((step + 200) * ppm / 1_000_000)
	}
	f.poll()
}

// look lets each node look, and those that saw a step say so at once, as the
// reserving goroutine does.
func (f *fleet) poll() {
	for _, n := range f.nodes {
		f.reserve(n, 0, 100, 100, false)
	}
	for _, n := range f.nodes {
		if n.stepped {
			f.reserve(n, 0, 100, 100, false)
		}
	}
}

// Whatever happens, no window holds more than the cap in force.
func lawNeverOver(t *testing.T, rdb redis.UniversalClient, ops int) {
	t.Helper()
	total, runs := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		roll := diceOf(rapid.Uint64().Draw(rt, "seed"))
		over, calls := history(rt, rdb, asWritten, roll, rapid.IntRange(ops/2, ops).Draw(rt, "ops"))
		if over != "" {
			rt.Fatal(over)
		}
		total, runs = total+calls, runs+1
	})
	if total < runs {
		t.Errorf("got %d calls in %d runs; so few prove nothing", total, runs)
	}
}

// The law has teeth: without the rule, a window over the cap is found.
func lawBreaksWithout(t *testing.T, rdb redis.UniversalClient, m mutation, ops int) {
	t.Helper()
	with := asWritten
	text := &with.reserve
	*text = without(t, *text, m.from, m.to)
	if m.play != nil {
		if over := played(t, rdb, asWritten, m.play); over != "" {
			t.Errorf("with %s: %s", m.rule, over)
		}
		if over := played(t, rdb, with, m.play); over == "" {
			t.Errorf("without %s, no window over the cap was found", m.rule)
		}
		return
	}
	const runs = 200
	for seed := range uint64(runs) {
		if over, _ := history(t, rdb, with, diceOf(seed), ops); over != "" {
			t.Logf("without %s, history %d: %s", m.rule, seed, over)
			return
		}
	}
	t.Errorf("without %s, no window over the cap was found in %d histories", m.rule, runs)
}

// asWritten are the scripts without a mutation.
var asWritten = texts{reserve: scriptOf(limit.TokenBucket)}

type mutation struct {
	rule, from, to string
	play           func(*fleet) // a history of its own, where chance finds it too seldom
}

var mutations = []mutation{
	{rule: "the cooldown", from: "not_before = now + set.horizon + set.lateness + math.max(algorithm.cooldown(set), algorithm.cooldown(earlier))\n  began = began or 0\n  if why == SETTINGS_LOST then\n    not_before = math.max(not_before, now + learn)", to: "not_before = now\n  began = began or 0\n  if why == SETTINGS_LOST then"},
	{rule: "the burst rule", from: "note('n', int(c.burst - 1))", to: "note('n', '0')"},
	{rule: "the cooldown after a clock step", from: "elseif stepped() then why = CLOCK_STEP\n", to: ""},
	{rule: "the number of a reservation", from: "if f[1] == seq and f[2] == epoch then", to: "if f[2] == epoch then"},
	{rule: "the debt over a loss", from: "not_before = math.max(not_before, math.min(began, now + set.horizon + set.lateness + set.window + set.guard))", to: "", play: func(f *fleet) {
		f.spendBurst()
		f.set(burstOfOne())
		f.poll()
		f.lose()
		f.saturate()
	}},
	{rule: "the debt over a change", from: "math.min(after(old, old.burst), after(c, old.burst))", to: "math.min(after(old, 1), after(c, 1))", play: func(f *fleet) {
		f.spendBurst()
		f.set(burstOfOne())
		f.saturate()
	}},
	{rule: "the debt over two changes", from: "behind = math.max(c.base, behind)", to: "behind = behind", play: func(f *fleet) {
		f.spendBurst()
		f.set(burstOfOne())
		f.poll()
		again := burstOfOne()
		again.Values["cap"] = "301"
		f.set(again)
		f.saturate()
	}},
	{rule: "the empty bucket after a change", from: "c.base, c.n = from, c.burst - 1", to: "c.base, c.n = from, 0"},
	{rule: "the debt over a change that a cooldown finds", from: "if old and applied ~= stored and (why > STATE_LOST", to: "if false and old and applied ~= stored and (why > STATE_LOST", play: func(f *fleet) {
		f.spendBurst()
		f.set(burstOfOne())
		f.promote()
		f.saturate()
	}},
	{rule: "the old guard at a cut of it", from: "behind = behind + math.max(0, old.guard - c.guard)", to: "", play: func(f *fleet) {
		f.set(burstOfOne())
		f.set(spread(90, 80))
		f.calling = atLast
		f.saturate()
		f.set(spread(10, 3))
		f.calling = atOnce
		f.saturate()
	}},
	{rule: "the gap before larger jobs", from: "behind = behind + after(c, c.max_cost)", to: "", play: func(f *fleet) {
		f.set(burstOfOne())
		f.saturate()
		f.set(largest(100))
		f.poll()
		f.dice = func(n int64) int64 { return n - 1 } // all jobs are of 100 units
		f.saturateBy(100)
	}},
	{rule: "the gap behind larger jobs under terms that Redis had forgotten", from: "math.max(algorithm.cooldown(set), algorithm.cooldown(earlier))", to: "algorithm.cooldown(set)", play: func(f *fleet) {
		f.set(burstOfOne())
		f.set(largest(100))
		f.dice = func(n int64) int64 { return n - 1 } // all jobs are of 100 units
		f.saturateBy(100)
		for calls := len(f.calls); len(f.calls) == calls; f.pass(10_000) { // until one lies a horizon ahead
			f.reserve(f.nodes[0], 100, 100, 100, false)
		}
		f.nodes[0].known = f.nodes[0].known.Successor("law", "", time.UnixMicro(f.server))
		f.nodes[0].known.MaxCost = 1
		f.saturate()
	}},
	{rule: "the bound of a job's cost", from: "cost > c.max_cost or", to: "", play: func(f *fleet) {
		f.set(burstOfOne())
		f.set(largest(100))
		f.nodes = append(f.nodes, f.fresh())
		f.poll()
		f.saturate()
		f.set(largest(1))
		f.saturate()
		f.nodes[1].seq++
		f.dice = func(n int64) int64 { return n - 1 } // the job is of 50 units
		f.reserve(f.nodes[1], 50, 0, 0, false)        // with this call the node learns of the change
	}},
	{rule: "the change of the pace", from: "if applied ~= stored or slow.paced ~= slow.pace then", to: "if applied ~= stored then", play: func(f *fleet) {
		fast := burstOfOne()
		fast.Values["cap"] = "997" // a pace that no smaller numbers tell
		f.set(fast)
		f.calling = atOnce
		f.dice = func(n int64) int64 { return n - 1 } // no job is gone: a call too many is seen
		f.saturate()
		for nth := range 6 { // each ends at another part of the timeline's turn
			putSlowdown(f.t, f.rdb, f.keys.Limit, slowTo(f.nodes[0].known.Contract, []float64{0.5, 0.9, 0.3}[nth%3], f.server))
			f.saturateFor(110+7*nth, 50)
			putSlowdown(f.t, f.rdb, f.keys.Limit, limit.Slowdown{})
			f.saturateFor(120, 50)
		}
	}},
}

// played is one node's history under 300 a second with a burst of 200.
func played(t *testing.T, rdb redis.UniversalClient, with texts, play func(*fleet)) string {
	t.Helper()
	c := contract(300)
	c.Burst = 200
	f := newFleet(t, rdb, with, diceOf(1), 1, c)
	f.poll()
	f.pass(3_000_000) // the bucket fills
	play(f)
	return f.over(c.Window)
}

// spendBurst takes all that the bucket holds at once.
func (f *fleet) spendBurst() { f.reserve(f.nodes[0], 200, 100, 100, false) }

// saturate reserves whatever there is for two seconds.
func (f *fleet) saturate() { f.saturateBy(50) }

func (f *fleet) saturateBy(want int64) { f.saturateFor(200, want) }

// saturateFor asks so often for so many units, each 10 ms.
func (f *fleet) saturateFor(steps int, want int64) {
	for range steps {
		f.reserve(f.nodes[0], want, 100, 100, false)
		f.pass(10_000)
	}
}

// promote has another master go on with what this one had.
func (f *fleet) promote() { promote(f.t, f.rdb, f.keys.Limit) }

// spread is a change of guard and lateness, in ms.
func spread(guard, lateness int64) control.Change {
	return control.Change{Values: parameters.Values{"guard": fmt.Sprintf("%dms", guard), "lateness": fmt.Sprintf("%dms", lateness)}, By: "law"}
}

// largest is a change of the largest job.
func largest(cost int64) control.Change {
	return control.Change{Values: parameters.Values{"max_cost": fmt.Sprint(cost)}, By: "law"}
}

func burstOfOne() control.Change {
	return control.Change{Values: parameters.Values{"burst": "1"}, By: "law"}
}

func laws(t *testing.T, rdb redis.UniversalClient, ops int, teeth []mutation) {
	t.Helper()
	t.Run("never over", func(t *testing.T) { lawNeverOver(t, rdb, ops) })
	for _, m := range teeth {
		t.Run(fmt.Sprint("breaks without ", m.rule), func(t *testing.T) { lawBreaksWithout(t, rdb, m, ops) })
	}
}

func TestLawsEmbedded(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	laws(t, embeddedRedis(t), 100, []mutation{mutations[0], mutations[1], mutations[4], mutations[5], mutations[6], mutations[8], mutations[9], mutations[10], mutations[11], mutations[12], mutations[13]}) // the real one is faster, and shows all
}
