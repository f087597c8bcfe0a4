package dedup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/lua"
)

// simulation plays nodes, Kafka and a provider around the real script, in simulated
// time. Deliveries crash, freeze and lose replies at every step, old commands run
// once more, and Kafka delivers jobs again at random.
type simulation struct {
	tester
	clock      clock
	roll       dice
	takeOver   bool
	now        time.Time
	nodes      []*script
	deliveries []*delivery
	first      int             // the oldest job that may still be delivered
	calls      map[int][]*call // of each job
	acked      map[int]time.Time
	noted      map[int]bool // a done of the job has reached Redis
	past       []command
	counts     counts
}

// counts of events show a run that proves nothing.
type counts struct{ calls, sent, unknown, late, generations int }

// tester is the part of *testing.T and *rapid.T that a simulation needs.
type tester interface {
	Helper()
	Fatal(args ...any)
}

type dice func(n int64) int64

func diceOf(seed uint64) dice { return rand.New(rand.NewPCG(seed, 1)).Int64N }

// clock sets the script's time.
type clock func(now time.Time, passed time.Duration)

type command struct {
	node *script
	ask  request
}

// call was written, and the provider may have done it.
type call struct {
	by      *delivery
	granted time.Time // when it was claimed
	taken   bool      // over from a delivery whose call is unknown, or claimed again after its own unknown call
}

const (
	simTimeout = 5 * time.Second
	simMargin  = time.Second
	simWindow  = 60 * time.Second
	simJobs    = 4 // at a time
)

// small makes generations fill up soon.
func small(text string) string {
	return strings.NewReplacer("EACH = 128", "EACH = 4", "LEAST, MOST = 1024, 1048576", "LEAST, MOST = 1, 4").Replace(text)
}

func newSimulation(t tester, rdb redis.UniversalClient, c clock, text string, takeOver bool, roll dice) *simulation {
	t.Helper()
	w := &simulation{
		tester: t, clock: c, roll: roll, takeOver: takeOver, now: time.UnixMicro(time.Now().UnixMicro()),
		calls: make(map[int][]*call), acked: make(map[int]time.Time), noted: make(map[int]bool),
	}
	if err := rdb.FlushDB(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	w.clock(w.now, 0)
	for range 3 {
		w.nodes = append(w.nodes, &script{
			rdb: rdb, text: redis.NewScript(text), prefix: prefix("law"),
			terms: terms{period: simWindow / 2, window: simWindow, hold: simTimeout + 2*simMargin, takeOver: takeOver},
		})
	}
	return w
}

// onMini is a miniredis and its clock.
func onMini(t testing.TB) (redis.UniversalClient, clock) {
	t.Helper()
	m := miniredis.RunT(t)
	return patient(t, m.Addr()), func(now time.Time, passed time.Duration) {
		m.SetTime(now)
		m.FastForward(passed)
	}
}

func patient(t testing.TB, addr string) redis.UniversalClient {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute, WriteTimeout: time.Minute, DialTimeout: time.Minute})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// do sends one entry to Redis among others that only peek.
func (w *simulation) do(node *script, a request) result {
	w.Helper()
	batch := []request{a}
	for range w.roll(3) {
		batch = append(batch, request{verb: verbPeek, job: jobOf(w.first + int(w.roll(simJobs))), owner: "reader"})
	}
	at := int(w.roll(int64(len(batch))))
	batch[0], batch[at] = batch[at], batch[0]
	answers, _, err := node.run(context.Background(), batch)
	if err != nil {
		w.Fatal(err)
	}
	w.counts.generations = max(w.counts.generations, len(node.generations))
	w.past = append(w.past, command{node, a})
	if len(w.past) > 30 {
		w.past = w.past[1:]
	}
	return answers[at]
}

func jobOf(job int) digest { return digestOf(fmt.Sprint("job", job)) }

// lost returns whether a command's request or its reply is lost.
func (w *simulation) lost() (request, reply bool) {
	n := w.roll(10)
	return n == 0, n == 1
}

// pass lets time pass, and makes the steps that become due.
func (w *simulation) pass(d time.Duration) {
	w.Helper()
	end := w.now.Add(d)
	for {
		var first *delivery
		for _, a := range w.deliveries {
			if !a.gone && !a.frozen && a.stage >= calling && !a.until.After(end) && (first == nil || a.until.Before(first.until)) {
				first = a
			}
		}
		at := end
		if first != nil {
			at = first.until
		}
		if step := at.Sub(w.now); step > 0 {
			w.now = at
			w.clock(at, step)
		}
		if first == nil {
			return
		}
		w.step(first, true)
	}
}

func (w *simulation) happen() {
	w.Helper()
	w.deliveries = remove(w.deliveries, func(a *delivery) bool { return a.gone })
	var a *delivery
	if len(w.deliveries) > 0 {
		a = w.deliveries[w.roll(int64(len(w.deliveries)))]
	}
	switch p := w.roll(100); {
	case p < 20 || a == nil:
		if w.roll(3) == 0 {
			w.first++
		}
		w.deliver(w.first + int(w.roll(simJobs)))
	case p < 70:
		w.step(a, false)
	case p < 75:
		a.gone = true // crashed
	case p < 78:
		a.frozen = true
	case p < 84 && len(w.past) > 0:
		c := w.past[w.roll(int64(len(w.past)))] // a command that the network delayed
		w.counts.late++
		if r := w.do(c.node, c.ask); r.code == codeTaken && c.ask.verb == verbClaim {
			w.tookOver(c.ask.owner)
		}
	default:
		w.pass(time.Duration(w.roll(int64([]time.Duration{10 * time.Millisecond, time.Second, 3 * time.Second, 20 * time.Second}[w.roll(4)]))))
	}
}

// tookOver tells a delivery that its late command took the job over.
func (w *simulation) tookOver(who string) {
	for _, a := range w.deliveries {
		if a.owner == who {
			a.taken, a.keepClaim = true, true
		}
	}
}

func remove(agents []*delivery, which func(*delivery) bool) []*delivery {
	kept := agents[:0]
	for _, a := range agents {
		if !which(a) {
			kept = append(kept, a)
		}
	}
	return kept
}

// deliver makes a delivery of a job.
func (w *simulation) deliver(job int) *delivery {
	a := &delivery{node: w.nodes[w.roll(int64(len(w.nodes)))], job: job, owner: fmt.Sprint("a", w.roll(1<<40)), number: 1}
	w.deliveries = append(w.deliveries, a)
	return a
}

// insist repeats a delivery's step until it succeeds, whatever is lost.
func (w *simulation) insist(a *delivery) {
	w.Helper()
	for was := a.stage; a.stage == was && !a.gone; {
		w.step(a, false)
	}
}

// late repeats commands of a claim that was released, after the delivery has claimed
// the job again. Then the delivery crashes in its call, and the job is delivered
// again.
func (w *simulation) late(verbs ...verb) {
	w.Helper()
	a := w.deliver(0)
	w.insist(a)
	first := a.number
	w.do(a.node, request{verb: verbRelease, job: jobOf(0), owner: a.owner, number: first})
	a.stage = claiming
	a.number++
	w.insist(a)
	for _, v := range verbs {
		w.do(a.node, request{verb: v, job: jobOf(0), owner: a.owner, number: first})
	}
	w.calls[0] = append(w.calls[0], &call{by: a, granted: a.granted})
	a.gone = true
	for range 5 { // some give it up
		b := w.deliver(0)
		for !b.gone && b.stage < calling {
			if w.step(b, false); b.stage == claiming {
				w.pass(time.Second)
			}
		}
		b.gone = true
	}
}

// history plays a history and returns its counts.
func history(t tester, rdb redis.UniversalClient, c clock, text string, takeOver bool, seed uint64, ops int) counts {
	t.Helper()
	w := newSimulation(t, rdb, c, text, takeOver, diceOf(seed))
	for range ops {
		w.happen()
	}
	return w.counts
}

func asWritten() string { return small(lua.Dedup()) }
