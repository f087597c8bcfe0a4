package throttle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"dispatcher/lua"
)

// history plays one random history against the script and returns the first
// window over the cap, if there is one, and how many calls were made.
//
// Nodes book, sometimes slowly, and lose replies; operators change cap and
// burst, pause and resume; the key is deleted; Redis's clock steps.
func history(t tester, rdb redis.UniversalClient, book string, roll dice, ops int) (over string, calls int) {
	c := Contract{
		Cap: []int64{1, 3, 7, 50, 300, 1000}[roll(6)], Window: time.Second, Burst: 1,
		Guard: DefaultGuard, Lateness: DefaultLateness, Horizon: DefaultHorizon,
	}
	if roll(2) == 0 {
		c.Burst = 1 + roll(c.Cap)
	}
	f := newFleet(t, rdb, book, roll, 1+int(roll(4)), c)
	f.look()
	f.pass(600_000) // past the fence of the start
	for range ops {
		f.happen(c)
	}
	return f.over(c.Window), len(f.calls)
}

func (f *fleet) happen(c Contract) {
	roll := f.dice
	n := f.nodes[roll(int64(len(f.nodes)))]
	switch p := roll(100); {
	case p < 60:
		f.book(n, 1+roll(max(1, c.Cap/20)), roll(500), roll(500), roll(10) == 0)
	case p < 75:
		f.book(n, 1+roll(c.Cap), roll(20_000), roll(2_000), roll(5) == 0)
	case p < 95:
		f.pass(roll([]int64{1_000, 30_000, 300_000}[roll(3)]))
	case p < 97:
		capacity := 1 + roll(2*c.Cap)
		burst, paused := 1+roll(capacity), roll(4) == 0
		f.set(Change{Cap: &capacity, Burst: &burst, Paused: &paused, By: "law"})
		f.look() // each node looks more often than a change may take to act
	case p < 98:
		f.lose()
	default:
		f.shift([]int64{-1, 1}[roll(2)] * (4_000 + roll([]int64{100_000, 5_000_000}[roll(2)])))
		f.look()
	}
}

func (f *fleet) look() {
	for _, n := range f.nodes {
		f.book(n, 0, 100, 100, false)
	}
}

// Whatever happens, no window holds more than the cap in force.
func lawNeverOver(t *testing.T, rdb redis.UniversalClient, ops int) {
	t.Helper()
	total, runs := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		roll := seeded(rapid.Uint64().Draw(rt, "seed"))
		over, calls := history(rt, rdb, lua.Book, roll, rapid.IntRange(ops/2, ops).Draw(rt, "ops"))
		if over != "" {
			rt.Fatal(over)
		}
		total, runs = total+calls, runs+1
	})
	if total < 10*runs {
		t.Errorf("got %d calls in %d runs; so few prove nothing", total, runs)
	}
}

// The law has teeth: without the rule, a window over the cap is found.
func lawBreaksWithout(t *testing.T, rdb redis.UniversalClient, m mutation, ops int) {
	t.Helper()
	if strings.Count(lua.Book, m.from) != 1 {
		t.Fatalf("the script has not exactly one %q; name the rule anew", m.from)
	}
	book := strings.Replace(lua.Book, m.from, m.to, 1)
	const runs = 200
	for seed := range uint64(runs) {
		if over, _ := history(t, rdb, book, seeded(seed), ops); over != "" {
			t.Logf("without %s, history %d: %s", m.rule, seed, over)
			return
		}
	}
	t.Errorf("without %s, no window over the cap was found in %d histories", m.rule, runs)
}

type mutation struct{ rule, from, to string }

var mutations = []mutation{
	{"the fence", "base, n, epoch = now + quiet, debt, int(now)", "base, n, epoch = now, debt, int(now)"},
	{"the burst rule", "base, n, epoch = now + quiet, debt, int(now)", "base, n, epoch = now + quiet, 0, int(now)"},
	{"the fence after a clock step", "elseif stepped and epoch == line[5] then fence = 6 end", "end"},
	{"the number of a booking", "if f[1] == seq and f[2] == epoch then", "if f[2] == epoch then"},
}

func laws(t *testing.T, rdb redis.UniversalClient, ops int, teeth []mutation) {
	t.Helper()
	t.Run("never over", func(t *testing.T) { lawNeverOver(t, rdb, ops) })
	for _, m := range teeth {
		t.Run(fmt.Sprint("breaks without ", m.rule), func(t *testing.T) { lawBreaksWithout(t, rdb, m, ops) })
	}
}

func TestLawsEmbedded(t *testing.T) {
	t.Parallel()
	laws(t, embeddedRedis(t), 100, mutations[:2]) // the real one is faster, and shows all
}
