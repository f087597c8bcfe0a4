package throttle

import (
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/containers"
)

// trial plays nodes that share one limit by one algorithm, on the embedded
// Redis in its own time, or on a real one.
type trial struct {
	*testing.T
	rdb    redis.UniversalClient
	mini   *miniredis.Miniredis // nil: a real one
	a      Algorithm
	c      Contract
	worst  int64  // the most that a window may hold, over all settings so far
	space  string // the limit's namespace
	nodes  []scripts
	known  []Settings
	seqs   []int64
	now    int64 // Redis's clock
	quiet  int64
	grants []int64
}

// newTrial is on a Redis: the embedded one where addr is empty.
func newTrial(t *testing.T, addr string, a Algorithm, c Contract, nodes int) *trial {
	t.Helper()
	if err := errorsIn(a, c); err != nil {
		t.Fatal(err)
	}
	space := "trial-" + fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(t.Name())))
	tr := &trial{T: t, a: a, c: c, space: space, worst: a.Worst(c), now: 1_700_000_000_000_000}
	if addr == "" {
		tr.mini = miniredis.RunT(t)
		tr.mini.SetTime(time.UnixMicro(tr.now))
		addr = tr.mini.Addr()
	}
	tr.rdb = patient(t, addr)
	for i := range nodes {
		tr.nodes = append(tr.nodes, newScripts(tr.rdb, space, "provider", fmt.Sprint("node", i), a))
		tr.known = append(tr.known, seeded(c, Rails{}))
	}
	tr.seqs = make([]int64, nodes)
	tr.look()
	tr.pass(tr.quiet - tr.now)
	return tr
}

func errorsIn(a Algorithm, c Contract) error {
	_, err := Check(a.Name, c, Rails{})
	return err
}

// pass lets µs go by.
func (tr *trial) pass(us int64) {
	if us <= 0 {
		return
	}
	tr.now += us
	if tr.mini == nil {
		time.Sleep(duration(us))
		return
	}
	tr.mini.SetTime(time.UnixMicro(tr.now))
	tr.mini.FastForward(duration(us))
}

func (tr *trial) ask(node int, want int64) booking {
	tr.Helper()
	b, err := tr.nodes[node].runBook(tr.Context(), ask{
		want: want, seq: tr.seqs[node], epoch: 1, identity: IdentityNone, lead: lead, known: tr.known[node],
	})
	if err != nil {
		tr.Fatal(err)
	}
	tr.known[node], tr.quiet = b.settings, b.quiet
	tr.now = max(tr.now, b.now)
	return b
}

// book asks for units and notes when those given are.
func (tr *trial) book(node int, want int64) booking {
	tr.Helper()
	tr.seqs[node]++
	b := tr.ask(node, want)
	for j := range b.schedule.given {
		tr.grants = append(tr.grants, b.schedule.at(j))
	}
	return b
}

func (tr *trial) look() {
	tr.Helper()
	for i := range tr.nodes {
		tr.ask(i, 0)
	}
}

// saturate asks for all there is, again and again, and returns what was given.
func (tr *trial) saturate(us, want int64) (given int64) {
	tr.Helper()
	for end := tr.now + us; tr.now < end; {
		b := tr.book(0, want)
		given += b.schedule.given
		if tr.mini == nil {
			tr.pass(2_000)
		} else {
			tr.pass(max(1_000, b.wait.Microseconds()))
		}
	}
	return given
}

// found is the fullest window + guard, and keep is a failure where it is over.
func (tr *trial) found() int64 {
	slices.Sort(tr.grants)
	most, first := 0, 0
	for i, at := range tr.grants {
		for tr.grants[first] <= at-windowed(tr.c).Microseconds() {
			first++
		}
		most = max(most, i-first+1)
	}
	return int64(most)
}

func (tr *trial) mustKeep() {
	tr.Helper()
	if found := tr.found(); found > tr.worst {
		tr.Errorf("%s: found %d units in %v, and at most %d are promised", tr.a.Name, found, windowed(tr.c), tr.worst)
	}
}

func (tr *trial) set(ch Change) {
	tr.Helper()
	control, err := NewControl(tr.rdb, tr.space, "provider")
	if err != nil {
		tr.Fatal(err)
	}
	ch.Force, ch.By = true, "law"
	s, err := control.Set(tr.Context(), ch)
	if err != nil {
		tr.Fatal(err)
	}
	tr.c = s.Contract
	tr.worst = max(tr.worst, tr.a.Worst(s.Contract))
}

func (tr *trial) del(key string) {
	tr.Helper()
	if err := tr.rdb.Del(tr.Context(), key).Err(); err != nil {
		tr.Fatal(err)
	}
}

// conforming are the laws that each algorithm keeps.
var conforming = []struct {
	name string
	law  func(*trial)
}{
	{"no window holds more after a late burst", func(tr *trial) {
		length := windowed(tr.c).Microseconds()
		tr.pass(3*length - tr.now%length) // to the beginning of a bucket, with nothing given before
		tr.book(0, 1)
		tr.pass(length - tr.now%length - 20_000)
		tr.book(0, tr.c.Cap)
		tr.saturate(2*length, 1)
		tr.Logf("found %d of %d", tr.found(), tr.worst)
		if !tr.a.Strict && tr.mini != nil && tr.found() <= tr.c.Cap {
			tr.Errorf("%s: found only %d units; so few don't show that it may pass the cap", tr.a.Name, tr.found())
		}
	}},
	{"a lost reply comes again", func(tr *trial) {
		tr.pass(windowed(tr.c).Microseconds())
		first := tr.book(0, 5)
		tr.pass(1_000)
		again := tr.ask(0, 5)
		if diff := cmp.Diff(first.schedule, again.schedule, cmp.AllowUnexported(schedule{})); first.schedule.given == 0 || diff != "" {
			tr.Errorf("%s: the same number got other slots (-first +again):\n%s", tr.a.Name, diff)
		}
	}},
	{"nothing while paused", func(tr *trial) {
		on, off := true, false
		tr.set(Change{Paused: &on})
		tr.pass(windowed(tr.c).Microseconds())
		if got := tr.saturate(windowed(tr.c).Microseconds(), 5); got > 0 {
			tr.Errorf("%s: %d units were given while paused", tr.a.Name, got)
		}
		tr.set(Change{Paused: &off})
		if got := tr.saturate(windowed(tr.c).Microseconds(), 5); got == 0 {
			tr.Errorf("%s: nothing was given after the pause", tr.a.Name)
		}
	}},
	{"a lost limit gives no more", func(tr *trial) {
		tr.lose(tr.nodes[0].keys.limit)
	}},
	{"a lost state gives no more", func(tr *trial) {
		tr.lose(tr.nodes[0].keys.state)
	}},
	{"who was refused is served after the wait", func(tr *trial) {
		for served := 0; served < 20; {
			b := tr.book(0, 3)
			if b.schedule.given > 0 {
				continue
			}
			tr.pass(b.wait.Microseconds())
			if again := tr.book(0, 3); again.schedule.given == 0 {
				tr.Fatalf("%s: told to wait %v, and refused then for %v", tr.a.Name, b.wait, again.wait)
			}
			served++
		}
	}},
	{"saturated, the share is used", func(tr *trial) {
		tr.pass(2 * windowed(tr.c).Microseconds())
		us := 4 * tr.c.Window.Microseconds()
		if tr.mini != nil {
			us *= 3
		}
		given := tr.saturate(us, max(1, tr.c.Cap/50))
		share := float64(given) / (float64(tr.c.Cap) * float64(us) / float64(tr.c.Window.Microseconds()))
		tr.Logf("used %.3f of the cap, %.3f was promised", share, tr.a.Share(tr.c))
		if share < tr.a.Share(tr.c)-0.05 && tr.mini != nil {
			tr.Errorf("%s: used %.3f of the cap, and %.3f was promised", tr.a.Name, share, tr.a.Share(tr.c))
		}
	}},
	{"another cap gives no more than the larger", func(tr *trial) {
		for _, part := range []int64{2, 1, 4, 1} {
			tr.saturate(tr.c.Window.Microseconds()/2, tr.c.Cap)
			next := tr.worstCap() / part
			tr.set(Change{Cap: &next})
		}
		tr.saturate(tr.c.Window.Microseconds(), tr.c.Cap)
	}},
	{"whatever happens, no window holds more", func(tr *trial) {
		roll, ops := diceOf(uint64(len(tr.a.Name))), 600
		if tr.mini == nil {
			ops = 300
		}
		for range ops {
			tr.happen(roll)
		}
		if len(tr.grants) < 20 {
			tr.Errorf("%s: got %d units; so few prove nothing", tr.a.Name, len(tr.grants))
		}
	}},
}

// worstCap is what the trials begin with.
func (*trial) worstCap() int64 { return 40 }

// lose deletes a key at the worst time, when all has just been given.
func (tr *trial) lose(key string) {
	tr.Helper()
	length := windowed(tr.c).Microseconds()
	tr.pass(2 * length)
	for range 4 {
		tr.saturate(length/3, tr.c.Cap)
		tr.book(0, tr.c.Cap)
		tr.del(key)
	}
	tr.saturate(2*length, tr.c.Cap)
}

func (tr *trial) happen(roll dice) {
	tr.Helper()
	node := int(roll(int64(len(tr.nodes))))
	switch p := roll(100); {
	case p < 60:
		b := tr.book(node, 1+roll([]int64{5, tr.c.Cap}[roll(2)]))
		if again := tr.ask(node, 1); b.schedule.given > 0 && again.schedule != b.schedule {
			tr.Errorf("%s: the same number got other slots: %v, then %v", tr.a.Name, b.schedule, again.schedule)
		}
	case p < 96:
		tr.pass(roll([]int64{1_000, 20_000, 300_000}[roll(3)]) / tr.slow())
	case p < 99:
		next := tr.c.Burst + roll(tr.worstCap()-tr.c.Burst+1)
		tr.look() // brings back what was deleted
		tr.set(Change{Cap: &next})
		tr.look()
	default:
		tr.del([]string{tr.nodes[0].keys.limit, tr.nodes[0].keys.state}[roll(2)])
	}
}

// slow makes pauses shorter where they take real time.
func (tr *trial) slow() int64 {
	if tr.mini == nil {
		return 3
	}
	return 1
}

// conform holds an algorithm to the laws, each on a limit of its own.
func conform(t *testing.T, addr string, a Algorithm, c Contract) {
	t.Helper()
	for _, l := range conforming {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, addr, a, c, 3)
			l.law(tr)
			tr.mustKeep()
		})
	}
}

// trialContract is one that the algorithm can keep: a burst where it has one.
func trialContract(a Algorithm, window time.Duration) Contract {
	c := contract(40)
	c.Window = window
	if a.Name == "redis_cell" {
		c.Window = time.Second
	}
	with := c
	with.Burst = 8
	if errorsIn(a, with) == nil {
		return with
	}
	return c
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, a := range Algorithms() {
		if a.Name == "redis_cell" {
			continue // needs a module: see TestConformanceReal
		}
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			conform(t, "", a, trialContract(a, time.Second))
		})
	}
}

func TestConformanceReal(t *testing.T) {
	t.Parallel()
	server := realCell(t)
	for _, a := range Algorithms() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			if a.Name == "redis_cell" && os.Getenv(cellModule) == "" {
				t.Skipf("NOT SHOWN: %s names no redis-cell module inside the image", cellModule)
			}
			conform(t, server.Addr, a, trialContract(a, 200*time.Millisecond))
		})
	}
}

// cellModule is the variable that names the module's path inside the image.
const cellModule = "DISPATCHER_TEST_REDIS_CELL"

// realCell is a real Redis, with redis-cell where there is one.
func realCell(t testing.TB) *containers.Server {
	t.Helper()
	if module := os.Getenv(cellModule); module != "" {
		return containers.RedisWith(t, "--loadmodule", module)
	}
	return containers.Redis(t)
}
