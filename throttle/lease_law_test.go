package throttle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"dispatcher/lua"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/lease"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// reserveRun is a fleet with a reserve around the real scripts, in simulated
// time. Nodes with a lease use it whenever they like, Redis gives out the rest
// without a gap, and the provider counts both.
type reserveRun struct {
	t     tester
	text  string // of lease.lua
	mini  *miniredis.Miniredis
	rdb   redis.UniversalClient
	set   limit.Settings
	roll  dice
	now   int64 // true time, µs
	skew  int64 // Redis's clock − true time
	nodes []*reserveNode
	named int
	slot  int64 // the next one that Redis gives
	calls []int64
	used  int // out of the reserve
}

type reserveNode struct {
	scripts script.Scripts
	clock   clock.Clock
	lease   lease.Lease
	stepped bool
	cut     bool
}

func (r *reserveRun) time() time.Time { return time.UnixMicro(r.now) }

func (r *reserveRun) fresh() *reserveNode {
	r.named++
	name := fmt.Sprint("node", r.named)
	n := &reserveNode{
		scripts: script.NewScripts(r.rdb, "law", "provider", name),
		clock:   clock.Clock{Origin: time.UnixMicro(0)},
	}
	n.scripts.Leasing = redis.NewScript(r.text)
	return n
}

func newReserveRun(t tester, mini *miniredis.Miniredis, rdb redis.UniversalClient, text string, roll dice) *reserveRun {
	t.Helper()
	mini.FlushAll()
	c := contract(20 + roll(30))
	c.MaxNodes = 1 + roll(3)
	c.Reserve = c.MaxNodes * (1 + roll(4))
	if roll(3) == 0 {
		c.MaxCost = 1 + roll(min(3, c.UnitsOfNode()))
	}
	r := &reserveRun{t: t, text: text, mini: mini, rdb: rdb, set: seeded(c), roll: roll, now: 1_700_000_000_000_000}
	for range c.MaxNodes + 2 {
		r.nodes = append(r.nodes, r.fresh())
	}
	r.poll()
	r.poll() // the first one began a cooldown
	r.ask(r.nodes[0], false)
	r.jump((lease.Length + 2*time.Second).Microseconds())
	r.poll()
	r.askAll()
	return r
}

// pass lets time go on while everybody sends what he may.
func (r *reserveRun) pass(d int64) {
	units, period := r.set.Pace()
	spacing := (period + units - 1) / units
	for r.slot < r.now+d {
		r.slot = max(r.slot, r.now)
		cost := 1 + r.roll(r.set.LargestCost())
		r.call(r.slot, cost)
		r.slot += cost * spacing
	}
	r.now += d
	r.mini.SetTime(time.UnixMicro(r.now + r.skew))
}

// jump lets time go on while nobody sends.
func (r *reserveRun) jump(d int64) {
	r.now += max(0, d)
	r.mini.SetTime(time.UnixMicro(r.now + r.skew))
}

// call arrives somewhere within the guard after its slot, often at an end, with all its
// units.
func (r *reserveRun) call(slot, cost int64) {
	at := slot + []int64{0, r.roll(10_001), 10_000}[r.roll(3)]
	r.calls = append(r.calls, slices.Repeat([]int64{at}, int(cost))...)
}

// use lets a node use its lease, as it would if it were cut off.
func (r *reserveRun) use(n *reserveNode) {
	costs := make([]int64, r.roll(10))
	for i := range costs {
		costs[i] = 1 + r.roll(r.set.LargestCost())
	}
	for i, s := range n.lease.Slots(r.set, r.time(), aheadOfCall, costs) {
		r.call(s.NotBefore.UnixMicro(), costs[i])
		r.used++
	}
}

func (r *reserveRun) observe(n *reserveNode, now, epoch int64) {
	n.stepped = n.clock.Observe(clock.Reading{Asked: r.time(), Answered: r.time(), Now: now, Epoch: epoch})
}

// look lets each node that is not cut off look, and tell of a step, as the
// reserving goroutine does five times a second.
func (r *reserveRun) poll() {
	for range 2 {
		for _, n := range r.nodes {
			if !n.cut {
				r.pollOf(n)
			}
		}
	}
}

func (r *reserveRun) pollOf(n *reserveNode) {
	b, err := n.scripts.Reserve(context.Background(), script.Ask{Seq: 1, Epoch: n.clock.Epoch, Stepped: n.stepped, Identity: string(IdentityNone), Nearest: nearest, Known: r.set})
	if err != nil {
		r.t.Fatal(err)
	}
	r.observe(n, b.Now, b.Epoch)
}

// ask lets a node ask for a lease; the reply may be lost.
func (r *reserveRun) ask(n *reserveNode, lost bool) {
	if n.cut || n.stepped || n.clock.Epoch == 0 {
		return
	}
	got, err := n.scripts.Lease(context.Background(), string(IdentityNone), lease.Length, n.lease.State(r.time()), 0)
	if err != nil {
		r.t.Fatal(err)
	}
	if lost {
		return
	}
	trusted := got.Epoch == n.clock.Epoch
	if trusted {
		r.observe(n, got.Now, got.Epoch)
		trusted = !n.stepped
	}
	n.lease.Take(r.time(), got.Granted, trusted)
}

func (r *reserveRun) askAll() {
	for _, n := range r.nodes {
		r.ask(n, r.roll(5) == 0)
	}
}

// end ends a node, gracefully or not, and begins another.
func (r *reserveRun) end(i int64) {
	n := r.nodes[i]
	if r.roll(2) == 0 && !n.cut && n.lease.Held(r.time()) {
		left := -2 * limit.MaxWindow
		if !n.lease.End.IsZero() {
			left = n.lease.End.Sub(r.time())
		}
		if _, err := n.scripts.Lease(context.Background(), string(IdentityNone), lease.Length, script.LeaseLeft, left); err != nil {
			r.t.Fatal(err)
		}
	}
	r.nodes[i] = r.fresh()
	r.poll() // it reserves nothing, and asks for nothing, before each other node has polled
}

// step makes Redis's clock jump, where a node is there to see it.
func (r *reserveRun) step(i int64) {
	if n := r.nodes[i]; n.cut || n.clock.Epoch == 0 {
		return
	}
	r.poll()
	r.skew += []int64{-1, 1}[r.roll(2)] * (10_000 + r.roll((2 * lease.Length).Microseconds()))
	r.jump(0)
	if r.roll(2) == 0 {
		r.ask(r.nodes[i], false) // it may come before the look
	}
	r.poll()
}

func (r *reserveRun) happen() {
	i := r.roll(int64(len(r.nodes)))
	n := r.nodes[i]
	switch p := r.roll(100); {
	case p < 40:
		for _, n := range r.nodes {
			r.use(n)
		}
		r.pass(1 + r.roll(800_000))
	case p < 60:
		r.ask(n, r.roll(5) == 0)
	case p < 72:
		n.cut = !n.cut
	case p < 80:
		if n.lease.Held(r.time()) { // to the end of a lease, where it may be handed on
			r.jump(n.lease.Until.UnixMicro() - r.now - r.roll(1_500_000))
		}
		r.poll()
		r.askAll()
	case p < 90:
		r.jump(r.roll((2 * lease.Length).Microseconds()))
		r.poll()
		r.askAll()
	case p < 95:
		r.end(i)
	case p < 97:
		r.step(i)
	case p < 98:
		r.mini.HSet("dispatcher:{law}:leases:provider", "master", "another")
	default:
		r.mini.FlushAll()
		r.poll()
	}
}

// heldAtOnce is how many shares can be used now.
func (r *reserveRun) heldAtOnce() (held int64) {
	for _, n := range r.nodes {
		held += count(n.lease.Held(r.time()))
	}
	return held
}

// play lets a run take its course, and says what went wrong.
func (r *reserveRun) play(ops int) string {
	for range ops {
		r.happen()
		held := r.heldAtOnce()
		if held > r.set.MaxNodes {
			return fmt.Sprintf("%d leases can be used at once, and there are %d", held, r.set.MaxNodes)
		}
	}
	if most := fullest(r.calls, r.set.Window); int64(most) > r.set.Cap {
		return fmt.Sprintf("%d calls in one window of %v, and the cap is %d", most, r.set.Window, r.set.Cap)
	}
	return ""
}

// Whoever is cut off, whatever is lost, ends, or steps: no window holds more
// than the cap, and no more leases than there are can be used at once.
func TestReserveNeverOver(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	mini := miniredis.RunT(t)
	rdb := patient(t, mini.Addr())
	used, runs := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		r := newReserveRun(rt, mini, rdb, lua.Lease(), diceOf(rapid.Uint64().Draw(rt, "seed")))
		if over := r.play(100); over != "" {
			rt.Fatal(over)
		}
		used, runs = used+r.used, runs+1
	})
	if used < runs {
		t.Errorf("got %d calls out of the reserve in %d runs; so few prove nothing", used, runs)
	}
}

// The law has teeth: without the rule, more is given than there is.
func TestReserveLawBreaksWithout(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	mini := miniredis.RunT(t)
	rdb := patient(t, mini.Addr())
	for _, m := range []struct{ rule, from, to string }{
		{"the window behind a lease", "+ counts <= now", "<= now"},
		{"the number of leases", "others >= set.max_nodes or", ""},
		{"the wait after a loss", "or complete)", "or true)"},
		{"the cooldown of leases that may be unknown", "or known[3] ~= epoch then", "then"},
	} {
		text := strings.Replace(lua.Lease(), m.from, m.to, 1)
		if text == lua.Lease() {
			t.Fatalf("the script has no %q; name the rule again", m.from)
		}
		broken := func() string {
			for seed := range uint64(100) {
				if over := newReserveRun(t, mini, rdb, text, diceOf(seed)).play(100); over != "" {
					return over
				}
			}
			return ""
		}
		over := broken()
		t.Logf("without %s: %s", m.rule, over)
		if over == "" {
			t.Errorf("without %s, nothing was found", m.rule)
		}
	}
}
