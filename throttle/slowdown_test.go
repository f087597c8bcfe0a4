package throttle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"dispatcher/throttle/control"
	"dispatcher/throttle/feedback"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
	"dispatcher/throttle/phase"
)

// slowTo is a slowdown to a part of a contract's cap.
func slowTo(c limit.Contract, share float64, since int64) limit.Slowdown {
	units := share * float64(c.Cap)
	return limit.Slowdown{Number: since, Since: since, Units: units, Effective: units, Window: c.Window.Microseconds(), Slowed: since, Why: "a test"}
}

// slowTo has a slowdown in force; the zero one ends it.
func (tr *trial) slowTo(s limit.Slowdown) {
	tr.Helper()
	putSlowdown(tr.T, tr.rdb, tr.nodes[0].Keys.Limit, s)
}

func putSlowdown(t tester, rdb redis.UniversalClient, key string, s limit.Slowdown) {
	t.Helper()
	var err error
	if s.IsZero() {
		err = rdb.HDel(contextOf(t), key, "slowdown").Err()
	} else {
		err = rdb.HSet(contextOf(t), key, "slowdown", s.Pack()).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// askOn has the nodes ask for units without end for a time, and returns how many they got in it.
func (tr *trial) askOn(d time.Duration, want int64) (granted int) {
	tr.Helper()
	before := len(tr.grants)
	for end := tr.now + d.Microseconds(); tr.now < end; tr.pass(10_000) {
		for node := range tr.nodes {
			tr.reserve(node, want)
		}
	}
	return len(tr.grants) - before
}

// Every algorithm keeps to a slowdown, and returns to the cap when it ends. No window is ever above the cap.
func TestASlowdownIsKept(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, a := range embeddedAlgorithms() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			slowdownIsKept(t, newTrial(t, "", a, trialContract(a, time.Second), 2))
		})
	}
}

func TestASlowdownIsKeptReal(t *testing.T) {
	t.Parallel()
	server := realCell(t)
	for _, a := range limit.Algorithms() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			needsCell(t, a)
			slowdownIsKept(t, newTrial(t, server.Addr, a, trialContract(a, time.Second), 2))
		})
	}
}

func slowdownIsKept(t *testing.T, tr *trial) {
	t.Helper()
	const seconds = 3
	steady := tr.mini != nil // on a real Redis the machine may have something else to do meanwhile, and nobody asks
	whole := tr.a.Share(tr.c) * float64(tr.c.Cap)
	tr.askOn(time.Second, 10)
	for _, share := range []float64{0.5, 0.1, 0.7} {
		tr.slowTo(slowTo(tr.c, share, tr.now))
		tr.askOn(time.Second, 10) // what was granted before may fill a window
		began := tr.now
		got := tr.askOn(seconds*time.Second, 10)
		most := share * float64(tr.c.Cap) * float64(tr.now-began) / float64(tr.c.Window.Microseconds())
		if float64(got) > most*1.05+float64(tr.c.Burst)+2 || steady && float64(got) < most*0.8*tr.a.Share(tr.c)-2 {
			t.Errorf("slowed to %.1f: got %d units in %v, want about %.0f", share, got, time.Duration(tr.now-began)*time.Microsecond, most)
		}
	}
	blocked := slowTo(tr.c, 0.1, tr.now)
	blocked.Until = tr.now + second.Microseconds()
	tr.slowTo(blocked)
	before := tr.now
	b := tr.reserve(0, 1)
	if b.Schedule.Given != 0 || steady && b.Wait < 900*time.Millisecond || b.Wait > time.Second || b.Slowdown != blocked {
		t.Errorf("blocked: got %d units, a wait of %v and %+v, want none for a second", b.Schedule.Given, b.Wait, b.Slowdown)
	}
	if got := tr.askOn(500*time.Millisecond, 10); got > 0 && tr.now < blocked.Until {
		t.Errorf("blocked: got %d units %v after the block began", got, time.Duration(tr.now-before)*time.Microsecond)
	}
	tr.slowTo(limit.Slowdown{})
	tr.askOn(2*time.Second, 10)
	if got := tr.askOn(seconds*time.Second, 10); steady && float64(got) < 0.9*whole*seconds {
		t.Errorf("after it: got %d units in %d s, want %.0f", got, seconds, whole*seconds)
	}
	if most := fullest(tr.grants, tr.c.Window); int64(most) > tr.worst {
		t.Errorf("got a window of %d units, want %d at most", most, tr.worst)
	}
}

const second = time.Second

// A fleet that only watches its calls goes under the operator's cap, also where that was raised since.
func TestACapRaisedWhileCallsAreWatchedIsInForce(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	tr := newTrial(t, "", algorithm(limit.TokenBucket), contract(300), 1)
	tr.slowTo(feedback.Begin(tr.c, tr.now))
	tr.askOn(time.Second, 10)
	tr.set(control.Change{Values: parameters.Values{"cap": "600"}})
	tr.askOn(time.Second, 10)
	if got := tr.askOn(4*time.Second, 10); got < 2300 {
		t.Errorf("got %d units in 4 s after the raise from 300 to 600 a second, want about 2376", got)
	}
}

// What Redis holds as a slowdown may be anything: the limit goes on, and never above its cap.
func TestASlowdownThatCanNotBeReadIsNone(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, text := range []string{"{", "[]", "7", `{"units":"a","window":1}`, `{"units":-5,"window":1000000}`, `{"units":1e300,"window":1}`, `{"since":1}`} {
		tr := newTrial(t, "", algorithm(limit.TokenBucket), contract(300), 1)
		if err := tr.rdb.HSet(t.Context(), tr.nodes[0].Keys.Limit, "slowdown", text).Err(); err != nil {
			t.Fatal(err)
		}
		if got := tr.askOn(time.Second, 10); got < 250 || int64(fullest(tr.grants, time.Second)) > tr.worst {
			t.Errorf("%s: got %d units in a second, want about 297", text, got)
		}
	}
}

// Whatever slowdowns follow each other, and whatever operators change meanwhile, no window is above the cap.
func TestSlowdownsNeverPassTheCap(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	a := algorithm(limit.TokenBucket)
	rapid.Check(t, func(rt *rapid.T) {
		c := contract(rapid.SampledFrom([]int64{3, 50, 300}).Draw(rt, "cap"))
		c.Burst = rapid.Int64Range(1, c.Cap).Draw(rt, "burst")
		tr := newTrial(t, "", a, c, 1)
		for range rapid.IntRange(1, 12).Draw(rt, "slowdowns") {
			s := limit.Slowdown{}
			if rapid.IntRange(0, 3).Draw(rt, "ends") > 0 {
				s = slowTo(c, rapid.Float64Range(0.01, 1.5).Draw(rt, "share"), tr.now)
			}
			tr.slowTo(s)
			lasts := time.Duration(rapid.IntRange(10, 800).Draw(rt, "ms")) * time.Millisecond
			switch rapid.IntRange(0, 2).Draw(rt, "jobs") {
			case 0: // a part of the burst is stored, or left
				tr.reserve(0, rapid.Int64Range(1, c.Cap).Draw(rt, "want"))
			case 1:
				tr.pass(lasts.Microseconds())
				tr.reserve(0, rapid.Int64Range(1, c.Cap).Draw(rt, "want"))
			default:
				tr.askOn(lasts, c.Cap)
			}
		}
		tr.slowTo(limit.Slowdown{})
		tr.askOn(2*time.Second, c.Cap)
		if most := fullest(tr.grants, c.Window+c.Guard-c.Lateness); int64(most) > tr.worst {
			rt.Fatalf("got a window of %d units, want %d at most", most, tr.worst)
		}
	})
}

// heard is a limit on an embedded Redis, whose nodes report what their provider answers.
func heardBy(w *latenessTest, node string) func(feedback.Counts) feedback.Reply {
	w.Helper()
	scripts := script.NewScripts(w.rdb, "late", "provider", node)
	return func(c feedback.Counts) feedback.Reply {
		w.Helper()
		r, err := c.Send(w.Context(), scripts)
		if err != nil {
			w.Fatal(err)
		}
		return r
	}
}

// One node decides at a time, by the reports of all; a decision about a slowdown that is over changes nothing; an operator
// releases.
func TestReportsOfRefusedCallsAreHandedToOneNode(t *testing.T) {
	t.Parallel()
	w := newLatenessTest(t, contract(300))
	a, b := heardBy(w, "a"), heardBy(w, "b")
	write := func(number int64, d feedback.Decision) limit.Slowdown {
		t.Helper()
		s, err := d.Write(t.Context(), w.scripts, number, "a test")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	r := a(feedback.Counts{Refused: 2})
	if !r.Decides || !r.Slowdown.IsZero() {
		t.Fatalf("got %+v, want that the first node decides, and that there is no slowdown", r)
	}
	first := slowTo(contract(300), 1, r.Now)
	if got := write(0, feedback.Decision{Next: first}); got != first {
		t.Fatalf("got %+v, want %+v", got, first)
	}
	if got := write(0, feedback.Decision{Next: slowTo(contract(300), 0.5, r.Now+1)}); got != first {
		t.Errorf("got %+v of a second decision, want the first one", got)
	}
	w.pass(500 * time.Millisecond)
	mine, others := feedback.Counts{Number: first.Number, Made: 50, Refused: 10, Asked: time.Second, Span: 400 * time.Millisecond}, feedback.Counts{Number: first.Number, Made: 70, Span: 300 * time.Millisecond}
	if r := a(mine); r.Decides || r.Slowdown != first {
		t.Errorf("got %+v after half a second, want that nobody decides yet", r)
	}
	w.pass(600 * time.Millisecond)
	r = b(others)
	if !r.Decides || len(r.Nodes) != 2 || r.Nodes[0] != mine && r.Nodes[1] != mine {
		t.Errorf("got %+v, want the counts of both nodes", r)
	}
	if r := a(mine); r.Decides {
		t.Errorf("got %+v, want one decision a second", r)
	}
	if r := a(feedback.Counts{Number: first.Number - 1, Made: 5}); r.Decides || r.Slowdown != first {
		t.Errorf("got %+v of counts under another slowdown, want the one in force", r)
	}
	second := slowTo(contract(300), 0.5, r.Now+1)
	write(first.Number, feedback.Decision{Next: second, Event: "slowed to 150 of 300"})
	old, err := w.control.Release(t.Context(), "an operator", "it was a mistake")
	if err != nil || old != second {
		t.Errorf("got %+v and %v, want the slowdown that was released", old, err)
	}
	if _, err := w.control.Release(t.Context(), "an operator", ""); err == nil || !strings.Contains(err.Error(), "neither blocked nor slowed") {
		t.Errorf("got %v of a second release", err)
	}
	events, err := w.control.Events(t.Context(), 10)
	if err != nil || len(events) != 2 || events[0].Text != "released by hand: it was a mistake" || events[0].By != "an operator" || events[1].Text != "slowed to 150 of 300" {
		t.Errorf("got %+v and %v, want both events", events, err)
	}
}

// A limit that is deleted leaves nothing of its slowdowns.
func TestADeletedLimitLeavesNoSlowdown(t *testing.T) {
	t.Parallel()
	w := newLatenessTest(t, contract(300))
	a := heardBy(w, "a")
	r := a(feedback.Counts{Refused: 2})
	d := feedback.Decision{Next: slowTo(contract(300), 0.5, r.Now), Event: "slowed"}
	if _, err := d.Write(t.Context(), w.scripts, 0, "a test"); err != nil {
		t.Fatal(err)
	}
	a(feedback.Counts{Number: r.Now, Made: 1})
	if err := w.control.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys := w.redis.Keys(); len(keys) != 1 || w.redis.HGet(w.control.Keys.Limit, "slowdown") != "" {
		t.Errorf("got keys %v, want the limit's alone, and no slowdown in it", keys)
	}
}

// A node without a slowdown reports refused calls alone. With one it reports its calls and plans with what is left. A block gives up
// the slots that are out.
func TestANodeReportsAndHeeds(t *testing.T) {
	t.Parallel()
	c := contract(300)
	l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: "n", Limit: specOf(c)})
	if err != nil {
		t.Fatal(err)
	}
	const redisNow = 1_700_000_000_000_000
	now := time.Now()
	r := &reserver{Limiter: l, lanes: make([]lane, 1), known: seeded(c), learned: true, redisNow: redisNow, answeredAt: now, kind: algorithm(limit.TokenBucket)}
	var reported []feedback.Counts
	slow, decides := limit.Slowdown{}, true
	l.reports.feedback.Send = func(_ context.Context, c feedback.Counts) (feedback.Reply, error) {
		reported = append(reported, c)
		return feedback.Reply{Now: redisNow, Slowdown: slow, Decides: decides}, nil
	}
	l.reports.feedback.Write = func(_ context.Context, number int64, d feedback.Decision) (limit.Slowdown, error) {
		if number != slow.Number {
			t.Errorf("got a decision about slowdown %d, want %d", number, slow.Number)
		}
		slow = d.Next
		return slow, nil
	}
	slot := func(at int64) Slot {
		return l.slots.Slot(time.Time{}, now.Add(time.Second), 0, l.slots.Suspended(), &slots.Charge{At: at})
	}
	report := func(after time.Duration) []feedback.Counts {
		reported = nil
		if slow, ok := r.reports.feedback.Report(t.Context(), r.known.Contract, 1, now.Add(after)); ok {
			r.slowDown(slow, now)
		}
		return reported
	}

	l.Begins(slot(redisNow), 1)
	if got := report(time.Second); len(got) > 0 {
		t.Fatalf("got %v reported, want nothing before a call is refused", got)
	}
	r.known.IgnoreThrottled = true
	l.Refused(slot(redisNow), 2, time.Second)
	if got := report(time.Second); len(got) > 0 {
		t.Fatalf("got %v reported, want nothing with ignore_throttled", got)
	}
	r.known.IgnoreThrottled = false
	if got := report(time.Second); len(got) != 1 || got[0].Refused != 2 || got[0].Number != 0 {
		t.Fatalf("got %v reported, want 2 refused units", got)
	}
	if slow.Units != 300 || l.State().Slowdown != slow {
		t.Fatalf("got %+v in force, want a slowdown that slows nothing", slow)
	}
	decides = false
	l.Begins(slot(redisNow-1), 1)
	l.Begins(slot(redisNow), 5)
	if got := report(1300 * time.Millisecond); len(got) > 0 {
		t.Errorf("got %v reported so soon again", got)
	}
	if got := report(1500 * time.Millisecond); len(got) != 1 || got[0].Made != 5 || got[0].Number != redisNow {
		t.Errorf("got %v reported, want 5 units made", got)
	}

	block, spacing, out := r.blockSize(), l.Spacing(), slot(redisNow)
	slow = slowTo(c, 0.5, redisNow+1)
	r.slowDown(slow, now)
	if got := r.blockSize(); got > block/2+1 {
		t.Errorf("got blocks of %d slots at half of the pace, want half of %d", got, block)
	}
	if got := l.Spacing(); got < 19*spacing/10 || got > 21*spacing/10 {
		t.Errorf("got a spacing of %v at half of the pace, want twice %v", got, spacing)
	}
	if out.GivenUp() {
		t.Error("a slowdown that blocks nothing gave slots up")
	}
	r.lanes[0].refusedUntil = now.Add(60 * time.Second)
	r.slowDown(slowTo(c, 0.75, redisNow+1), now)
	if got := r.lanes[0].refusedUntil.Sub(now).Round(time.Millisecond); got != 40*time.Second {
		t.Errorf("got a wait of %v once the pace has risen by half, want 40s of 60s", got)
	}
	r.slowDown(slow, now)
	if got := r.lanes[0].refusedUntil.Sub(now).Round(time.Millisecond); got != 40*time.Second {
		t.Errorf("got a wait of %v once the pace has fallen, want the same", got)
	}
	r.lanes[0].refusedUntil = time.Time{}
	l.enter(phase.Running, time.Time{}, nil, 0)
	if got, want := l.State().Note(), "slowed to 150 of 300 in 1s: a test"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	slow = slowTo(c, 0.5, redisNow+2)
	slow.Until = redisNow + 3_000_000
	r.slowDown(slow, now)
	if !out.GivenUp() {
		t.Error("a slot that was out when a block began is not given up")
	}
	r.lanes[0].refusedUntil = now.Add(time.Minute)
	r.report(script.Reservation{Now: redisNow, Settings: r.known, Slowdown: slow}, now, false)
	if s := l.State(); s.Phase != phase.Blocked || s.Ready() != nil || !strings.Contains(s.Note(), "blocked until") {
		t.Errorf("got phase %s, %v and %q, want that the node is ready and blocked", s.Phase, s.Ready(), s.Note())
	}
	if due := r.turnDue(0, now); due.Before(now.Add(2 * time.Second)) {
		t.Errorf("got a turn in %v, want none before the block ends", due.Sub(now))
	}
	r.slowDown(limit.Slowdown{}, now) // an operator has released it
	if !r.lanes[0].refusedUntil.IsZero() {
		t.Error("a node still waits for the end of a block that was released")
	}
}

// A pace that rises each second is used whole, whatever burst and window are: to rise takes nothing.
func TestAPaceThatRisesIsUsed(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, row := range []struct {
		burst   int64
		window  time.Duration
		seconds int
	}{{1, time.Second, 10}, {50, time.Second, 10}, {150, time.Second, 10}, {50, 10 * time.Second, 28}} {
		c := contract(300)
		c.Burst, c.Window = row.burst, row.window
		tr := newTrial(t, "", algorithm(limit.TokenBucket), c, 1)
		share, want := 0.3, 0.0
		tr.slowTo(slowTo(c, share, tr.now))
		tr.askOn(2*row.window, 5)
		before := len(tr.grants)
		for range row.seconds {
			share *= 1.02
			want += share * tr.a.Share(c) * float64(c.Cap) / row.window.Seconds()
			tr.slowTo(slowTo(c, share, tr.now))
			tr.askOn(time.Second, 5)
		}
		if got := len(tr.grants) - before; float64(got) < 0.95*want-5 {
			t.Errorf("burst %d, window %v: got %d units while the pace rises, want about %.0f", row.burst, row.window, got, want)
		}
		if most := fullest(tr.grants, c.Window); int64(most) > tr.worst {
			t.Errorf("burst %d, window %v: got a window of %d units, want %d at most", row.burst, row.window, most, tr.worst)
		}
	}
}

// A block that was made before Redis's clock went back ends at once, on the nodes as well, and so does a slowdown.
func TestASlowdownEndsWhenTheClockGoesBack(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "", algorithm(limit.TokenBucket), contract(300), 1)
	blocked := slowTo(tr.c, 0.1, tr.now+30*second.Microseconds())
	blocked.Until = tr.now + 3600*second.Microseconds()
	tr.slowTo(blocked)
	if b := tr.reserve(0, 1); b.Schedule.Given != 1 || !b.Slowdown.IsZero() {
		t.Errorf("got %d units and %+v, want that a block that ends in an hour is none", b.Schedule.Given, b.Slowdown)
	}
	w := newLatenessTest(t, contract(300))
	a := heardBy(w, "a")
	r := a(feedback.Counts{Refused: 2})
	s := slowTo(contract(300), 0.1, r.Now)
	if _, err := (feedback.Decision{Next: s}).Write(t.Context(), w.scripts, 0, "a test"); err != nil {
		t.Fatal(err)
	}
	w.pass(-time.Hour)
	if r := a(feedback.Counts{Number: s.Number, Made: 100}); !r.Slowdown.IsZero() {
		t.Errorf("got %+v, want that a slowdown of before the clock went back is none", r.Slowdown)
	}
	if r := a(feedback.Counts{Refused: 2}); !r.Decides {
		t.Errorf("got %+v, want that the next refused calls are decided on at once", r)
	}
}

// Jobs are turned away where the bucket is full. Where the script granted nothing for another reason, such as a block or a step of the
// clock, they wait.
func TestABlockTurnsNobodyAway(t *testing.T) {
	t.Parallel()
	spec := specOf(contract(300))
	spec.Algorithm, spec.WhenFull = limit.LeakyBucket, limit.FullRefuse
	l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Node: "n", Limit: spec})
	if err != nil {
		t.Fatal(err)
	}
	r := &reserver{Limiter: l, lanes: make([]lane, 1), known: spec.Settings(), learned: true, kind: algorithm(limit.LeakyBucket)}
	for short, want := range map[script.Shortage]error{script.ShortOfUnits: ErrFull, script.ShortOfCalls: nil, script.ShortOfNothing: nil} {
		q := request{answer: &Answer{}}
		r.turnAway([]request{q}, script.Reservation{Now: 1000, Settings: r.known, Short: short})
		if got := q.answer.Err; !errors.Is(got, want) {
			t.Errorf("with shortage %d: got %v, want %v", short, got, want)
		}
	}
}

// An operator who has the answers ignored ends a block and a slowdown.
func TestIgnoringTheAnswersEndsABlock(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, "", algorithm(limit.TokenBucket), contract(300), 1)
	blocked := slowTo(tr.c, 0.1, tr.now)
	blocked.Until = tr.now + 3*second.Microseconds()
	tr.slowTo(blocked)
	tr.set(control.Change{Values: parameters.Values{"ignore_throttled": "true"}})
	if got := tr.askOn(2*time.Second, 10); got < 500 {
		t.Errorf("got %d units in 2 s, want about 594", got)
	}
	tr.set(control.Change{Values: parameters.Values{"ignore_throttled": "false"}})
	if b := tr.reserve(0, 1); !b.Slowdown.IsZero() {
		t.Errorf("got %+v again", b.Slowdown)
	}
}

// What is stored of a burst was stored at the pace of then: when the pace rises, it is no more.
func TestAFasterPaceStoresNothing(t *testing.T) {
	t.Parallel()
	c := contract(300)
	c.Burst = 150
	tr := newTrial(t, "", algorithm(limit.TokenBucket), c, 1)
	tr.slowTo(slowTo(c, 0.02, tr.now))
	tr.askOn(time.Second, c.Cap) // the bucket is empty
	tr.pass(20 * second.Microseconds())
	if b := tr.reserve(0, 50); b.Schedule.Given != 50 {
		t.Fatalf("got %d units after 20 s of six a second, want 50", b.Schedule.Given)
	}
	tr.slowTo(limit.Slowdown{})
	tr.askOn(2*time.Second, c.Cap)
	if most := fullest(tr.grants, c.Window); int64(most) > tr.worst {
		t.Errorf("got a window of %d units, want %d at most", most, tr.worst)
	}
}
