package throttle

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/containers"
	"dispatcher/throttle/control"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// trial plays nodes that share one limit by one algorithm, on the embedded
// Redis in its own time, or on a real one.
type trial struct {
	*testing.T
	redisTime

	rdb       redis.UniversalClient
	a         limit.Algorithm
	c         limit.Contract
	worst     int64  // the most that a window may hold, over all settings so far
	space     string // the limit's namespace
	nodes     []script.Scripts
	known     []limit.Settings
	seqs      []int64
	epochs    []int64
	unused    []script.Correction // slots that the next reservation gives back
	notBefore int64
	reach     time.Duration // 0: up to the horizon
	grants    []int64
	above     string // how the share was passed
	places    []script.Place
	lane      script.Lane // of the jobs that ask next; the zero one: they have none
	costs     []int64     // of the jobs that ask next; nil: one unit each
	since     int64       // when the nodes began; 0: they are too young for the queue
}

// newTrial is on a Redis: the embedded one where addr is empty.
func newTrial(t *testing.T, addr string, a limit.Algorithm, c limit.Contract, nodes int) *trial {
	t.Helper()
	if err := errorsIn(a, c); err != nil {
		t.Fatal(err)
	}
	space := "trial-" + fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(t.Name())))
	tr := &trial{T: t, a: a, c: c, space: space, worst: a.Worst(c), redisTime: redisTime{now: 1_700_000_000_000_000}}
	if addr == "" {
		tr.mini = miniredis.RunT(t)
		tr.mini.SetTime(time.UnixMicro(tr.now))
		addr = tr.mini.Addr()
	}
	tr.rdb = patient(t, addr)
	for i := range nodes {
		tr.nodes = append(tr.nodes, script.NewScripts(tr.rdb, space, "provider", fmt.Sprint("node", i)))
		tr.known = append(tr.known, seededBy(a.Name, c))
	}
	tr.seqs, tr.epochs, tr.places = make([]int64, nodes), slices.Repeat([]int64{1}, nodes), make([]script.Place, nodes)
	tr.poll()
	tr.pass(tr.notBefore - tr.now)
	return tr
}

func errorsIn(a limit.Algorithm, c limit.Contract) error {
	err := limit.Terms{Contract: c, Algorithm: a.Name}.Validate()
	return err
}

// pass lets µs go by.
func (tr *trial) pass(us int64) {
	if us <= 0 {
		return
	}
	tr.redisTime.pass(us)
}

func (tr *trial) ask(node int, want int64) script.Reservation {
	tr.Helper()
	tr.places[node].Due = tr.since > 0 // they ask at their times
	var unused []script.Correction
	if want > 0 {
		unused, tr.unused = tr.unused, nil
	}
	b, err := tr.nodes[node].Reserve(tr.Context(), script.Ask{
		Since: tr.since, Want: want, Costs: tr.costs, Seq: tr.seqs[node], Retry: true, Epoch: tr.epochs[node], Corrections: unused, Learned: true, Place: tr.places[node], Lane: tr.lane, Identity: string(IdentityNone), Nearest: nearest, Reach: tr.reach, Known: tr.known[node],
	})
	if err != nil {
		tr.Fatal(err)
	}
	tr.known[node], tr.notBefore, tr.places[node], tr.epochs[node] = b.Settings, b.NotBefore, b.Place, b.Epoch
	tr.now = max(tr.now, b.Now)
	return b
}

// reserve asks for units and notes when those given are.
func (tr *trial) reserve(node int, want int64) script.Reservation {
	tr.Helper()
	tr.seqs[node]++
	b := tr.ask(node, want)
	for j := range b.Schedule.Given {
		tr.grants = append(tr.grants, b.Schedule.At(j))
	}
	return b
}

// dropped does not use the newest units that were granted, so many of them.
func (tr *trial) dropped(units int64) (unused []script.Correction) {
	first := len(tr.grants) - int(units)
	for _, at := range tr.grants[first:] {
		unused = append(unused, script.Correction{Slot: at, Units: 1})
	}
	tr.grants = tr.grants[:first]
	return unused
}

// reserveJobs asks for jobs of these costs. All units of a job are used at its first slot.
func (tr *trial) reserveJobs(node int, costs []int64) (jobs int, b script.Reservation) {
	tr.Helper()
	tr.seqs[node]++
	want := int64(0)
	for _, cost := range costs {
		want += cost
	}
	tr.costs = costs
	b = tr.ask(node, want)
	tr.costs = nil
	all, units := b.Grants(costs)
	for _, one := range all {
		tr.grants = append(tr.grants, slices.Repeat([]int64{one.At}, int(costs[one.Job]))...)
	}
	jobs = len(all)
	if units != b.Schedule.Given {
		tr.Fatalf("%s: got %d units for jobs of %v, which make no whole jobs", tr.a.Name, b.Schedule.Given, costs)
	}
	return jobs, b
}

func (tr *trial) poll() {
	tr.Helper()
	for i := range tr.nodes {
		tr.ask(i, 0)
	}
}

// saturate asks for all there is, again and again, and returns what was given.
func (tr *trial) saturate(us, want int64) (given int64) {
	tr.Helper()
	for end := tr.now + us; tr.now < end; {
		b := tr.reserve(0, want)
		given += b.Schedule.Given
		if tr.mini == nil {
			tr.pass(2_000)
		} else {
			tr.pass(max(1_000, b.Wait.Microseconds()))
		}
	}
	return given
}

// found is the fullest window + guard, and keep is a failure where it is over.
func (tr *trial) found() int64 { return int64(fullest(tr.grants, limit.Windowed(tr.c))) }

func (tr *trial) mustKeep() {
	tr.Helper()
	if tr.above != "" {
		tr.Errorf("%s: %s", tr.a.Name, tr.above)
	}
	if found := tr.found(); found > tr.worst {
		tr.Errorf("%s: found %d units in %v, and at most %d are promised", tr.a.Name, found, limit.Windowed(tr.c), tr.worst)
	}
}

func (tr *trial) set(ch control.Change) {
	tr.Helper()
	operator, err := control.NewControl(tr.rdb, tr.space, "provider")
	if err != nil {
		tr.Fatal(err)
	}
	ch.Force, ch.By = true, "law"
	s, err := operator.Set(tr.Context(), ch)
	if err != nil && !errors.Is(err, control.ErrUnchanged) {
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

// conform holds an algorithm to the laws, each on a limit of its own.
func conform(t *testing.T, addr string, a limit.Algorithm, c limit.Contract) {
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
func trialContract(a limit.Algorithm, window time.Duration) limit.Contract {
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
	oneGoroutine(t)
	t.Parallel()
	for _, a := range embeddedAlgorithms() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			conform(t, "", a, trialContract(a, time.Second))
		})
	}
}

// At six a minute too, a raise is felt within half a second, wherever between two
// units it comes.
func TestARaiseIsFeltAtOnce(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, a := range embeddedAlgorithms() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, "", a, contractOf(6, time.Minute), 1)
			for given := range int64(13) {
				for taken := int64(0); taken <= given%4; taken += tr.reserve(0, 1).Schedule.Given {
					tr.pass(500_000)
				}
				tr.pass(1_000_000 * given % 10_000_000)
				high, low := int64(6000), int64(6)
				tr.set(control.Change{Values: parameters.Values{"cap": fmt.Sprint(high)}})
				before, end := len(tr.grants), tr.now+500_000
				for tr.poll(); tr.now < end && len(tr.grants) == before; tr.pass(5_000) {
					tr.reserve(0, 1)
				}
				if len(tr.grants) == before || tr.grants[before] > end {
					t.Fatalf("after %d units nothing was given within half a second of a raise", before)
				}
				tr.set(control.Change{Values: parameters.Values{"cap": fmt.Sprint(low)}})
				tr.poll()
			}
		})
	}
}

func TestConformanceReal(t *testing.T) {
	t.Parallel()
	server := realCell(t)
	for _, a := range limit.Algorithms() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			needsCell(t, a)
			conform(t, server.Addr, a, trialContract(a, 200*time.Millisecond))
		})
	}
}

// cellModule is the variable that names the module's path inside the image.
const cellModule = "DISPATCHER_TEST_REDIS_CELL"

// embeddedAlgorithms are those that the embedded Redis runs: redis_cell needs a module.
func embeddedAlgorithms() []limit.Algorithm {
	return slices.DeleteFunc(limit.Algorithms(), func(a limit.Algorithm) bool { return a.Name == limit.RedisCell })
}

// needsCell skips a test of redis_cell on a real Redis where nothing names the module.
func needsCell(t testing.TB, a limit.Algorithm) {
	t.Helper()
	if a.Name == limit.RedisCell && os.Getenv(cellModule) == "" {
		t.Skipf("NOT SHOWN: %s names no redis-cell module inside the image", cellModule)
	}
}

// realCell is a real Redis, with redis-cell where there is one.
func realCell(t testing.TB) *containers.Server {
	t.Helper()
	if module := os.Getenv(cellModule); module != "" {
		return containers.RedisWith(t, "--loadmodule", module)
	}
	return containers.Redis(t)
}

// contextOf is the context of a test that may be a property.
func contextOf(t tester) context.Context {
	if c, ok := t.(interface{ Context() context.Context }); ok {
		return c.Context()
	}
	return context.Background()
}
