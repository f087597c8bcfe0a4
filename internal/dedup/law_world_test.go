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

// world plays nodes, Kafka and a provider around the real script, in simulated
// time. Deliveries crash, freeze and lose replies at every step; commands that
// were long answered run once more; Kafka delivers what it likes.
type world struct {
	tester
	clock  clock
	roll   dice
	take   bool
	now    time.Time
	nodes  []*script
	agents []*agent
	first  int             // the oldest job that may still be delivered
	calls  map[int][]*call // of each job
	acked  map[int]time.Time
	noted  map[int]bool // a done of the job has reached Redis
	past   []command
	met    meters
}

// meters count what happened, so that a run that proves nothing is seen.
type meters struct{ calls, sent, unknown, zombies, generations int }

// tester is what a world needs of a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
}

type dice func(n int64) int64

func diceOf(seed uint64) dice { return rand.New(rand.NewPCG(seed, 1)).Int64N }

// clock sets the time by which the script runs.
type clock func(now time.Time, passed time.Duration)

type command struct {
	node *script
	ask  ask
}

// call is one that was written and may have been done.
type call struct {
	by      *agent
	granted time.Time // when it was claimed
	taken   bool      // from somebody whose call is unknown, or again after one's own was
}

const (
	simTimeout = 5 * time.Second
	simMargin  = time.Second
	simWindow  = 60 * time.Second
	simJobs    = 4 // at a time
)

// small makes generations fill up.
func small(text string) string {
	return strings.NewReplacer("EACH = 128", "EACH = 4", "LEAST, MOST = 1024, 1048576", "LEAST, MOST = 1, 4").Replace(text)
}

func newWorld(t tester, rdb redis.UniversalClient, c clock, text string, take bool, roll dice) *world {
	t.Helper()
	w := &world{
		tester: t, clock: c, roll: roll, take: take, now: time.UnixMicro(time.Now().UnixMicro()),
		calls: make(map[int][]*call), acked: make(map[int]time.Time), noted: make(map[int]bool),
	}
	if err := rdb.FlushDB(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	w.clock(w.now, 0)
	for range 3 {
		w.nodes = append(w.nodes, &script{
			rdb: rdb, text: redis.NewScript(text), prefix: prefix("law"),
			terms: terms{period: simWindow / 2, window: simWindow, hold: simTimeout + 2*simMargin, take: take},
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

// do brings one entry to Redis among others that only look.
func (w *world) do(node *script, a ask) told {
	w.Helper()
	batch := []ask{a}
	for range w.roll(3) {
		batch = append(batch, ask{verb: verbLook, job: jobOf(w.first + int(w.roll(simJobs))), who: "looker"})
	}
	at := int(w.roll(int64(len(batch))))
	batch[0], batch[at] = batch[at], batch[0]
	answers, _, err := node.run(context.Background(), batch)
	if err != nil {
		w.Fatal(err)
	}
	w.met.generations = max(w.met.generations, len(node.generations))
	w.past = append(w.past, command{node, a})
	if len(w.past) > 30 {
		w.past = w.past[1:]
	}
	return answers[at]
}

func jobOf(job int) digest { return digestOf(fmt.Sprint("job", job)) }

// lost says of a command whether its request or its reply was lost.
func (w *world) lost() (request, reply bool) {
	n := w.roll(10)
	return n == 0, n == 1
}

// pass lets time pass, and those go on who are due in it.
func (w *world) pass(d time.Duration) {
	w.Helper()
	end := w.now.Add(d)
	for {
		var first *agent
		for _, a := range w.agents {
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

func (w *world) happen() {
	w.Helper()
	w.agents = remove(w.agents, func(a *agent) bool { return a.gone })
	var a *agent
	if len(w.agents) > 0 {
		a = w.agents[w.roll(int64(len(w.agents)))]
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
		a.gone = true // crashed, at whatever step it was
	case p < 78:
		a.frozen = true
	case p < 84 && len(w.past) > 0:
		c := w.past[w.roll(int64(len(w.past)))] // a command that the network kept
		w.met.zombies++
		if r := w.do(c.node, c.ask); r.verdict == toldTaken && c.ask.verb == verbClaim {
			w.tookOver(c.ask.who)
		}
	default:
		w.pass(time.Duration(w.roll(int64([]time.Duration{10 * time.Millisecond, time.Second, 3 * time.Second, 20 * time.Second}[w.roll(4)]))))
	}
}

// tookOver lets a delivery know what its late command did.
func (w *world) tookOver(who string) {
	for _, a := range w.agents {
		if a.who == who {
			a.taken, a.kept = true, true
		}
	}
}

func remove(agents []*agent, which func(*agent) bool) []*agent {
	kept := agents[:0]
	for _, a := range agents {
		if !which(a) {
			kept = append(kept, a)
		}
	}
	return kept
}

// deliver hands a job to a delivery.
func (w *world) deliver(job int) *agent {
	a := &agent{node: w.nodes[w.roll(int64(len(w.nodes)))], job: job, who: fmt.Sprint("a", w.roll(1<<40)), number: 1}
	w.agents = append(w.agents, a)
	return a
}

// insist lets a delivery go on until it is somewhere else, whatever is lost.
func (w *world) insist(a *agent) {
	w.Helper()
	for was := a.stage; a.stage == was && !a.gone; {
		w.step(a, false)
	}
}

// late lets commands reach Redis once more, long after a delivery's claim of
// that number was released and it has claimed again; it crashes in its call,
// and the job is delivered again.
func (w *world) late(verbs ...verb) {
	w.Helper()
	a := w.deliver(0)
	w.insist(a)
	first := a.number
	w.do(a.node, ask{verb: verbRelease, job: jobOf(0), who: a.who, number: first})
	a.stage = asking
	a.number++
	w.insist(a)
	for _, v := range verbs {
		w.do(a.node, ask{verb: v, job: jobOf(0), who: a.who, number: first})
	}
	w.calls[0] = append(w.calls[0], &call{by: a, granted: a.granted})
	a.gone = true
	for range 5 { // some of which let it be
		b := w.deliver(0)
		for !b.gone && b.stage < calling {
			if w.step(b, false); b.stage == asking {
				w.pass(time.Second)
			}
		}
		b.gone = true
	}
}

// history plays one and returns what it met.
func history(t tester, rdb redis.UniversalClient, c clock, text string, take bool, seed uint64, ops int) meters {
	t.Helper()
	w := newWorld(t, rdb, c, text, take, diceOf(seed))
	for range ops {
		w.happen()
	}
	return w.met
}

func asWritten() string { return small(lua.Dedup()) }
