package throttle

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// lateWorld is a limit on an embedded Redis whose clock only the test moves.
type lateWorld struct {
	*testing.T
	redis   *miniredis.Miniredis
	rdb     redis.UniversalClient
	control *Control
	script  latenessScript
	now     time.Time
}

func newLateWorld(t *testing.T, c Contract) *lateWorld {
	t.Helper()
	w := &lateWorld{T: t, redis: miniredis.RunT(t), now: time.Unix(1_700_000_000, 0)}
	w.rdb = patient(t, w.redis.Addr())
	w.redis.SetTime(w.now)
	control, err := NewControl(w.rdb, "late", "provider")
	if err != nil {
		t.Fatal(err)
	}
	w.control, w.script = control, newLatenessScript(w.rdb, "late", "provider")
	seed := seeded("", c, Rails{})
	if err := w.rdb.HSet(t.Context(), control.keys.limit, "settings", seed.pack()).Err(); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *lateWorld) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.redis.SetTime(w.now)
}

func (w *lateWorld) report(r lateReport) lateReply {
	w.Helper()
	reply, err := w.script.run(w.Context(), r)
	if err != nil {
		w.Fatal(err)
	}
	return reply
}

func (w *lateWorld) settings() Settings {
	w.Helper()
	s, err := w.control.Get(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *lateWorld) set(ch Change) Settings {
	w.Helper()
	s, err := w.control.Set(w.Context(), ch)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// choose makes the lateness another one, as a node does.
func (w *lateWorld) choose(lateness time.Duration) Settings {
	w.Helper()
	w.pass(time.Second)
	s := w.settings()
	to := s.withLateness(latenessChoice{lateness: lateness, why: "guard auto: by a test"}, w.now)
	if status, err := w.control.scripts.runConfigure(w.Context(), s, to); err != nil || status != changeDone {
		w.Fatalf("got status %d, %v", status, err)
	}
	return w.settings()
}

// The counts of all nodes are added, each in its second and its ten seconds, and
// one node a second gets them.
func TestReportsAreAddedAndHandedOutOnceASecond(t *testing.T) {
	t.Parallel()
	w := newLateWorld(t, autoContract(time.Second))
	for range 25 {
		a, b := w.report(lateReport{counts: lateCounts{90, 0, 0, 0, 7}}), w.report(lateReport{counts: lateCounts{100, 0, 0, 0, 0, 0, 0, 3}})
		if !a.mine || b.mine {
			t.Fatalf("got turns %v and %v in one second, want the first only", a.mine, b.mine)
		}
		w.pass(time.Second)
	}
	got := w.report(lateReport{}).evidence
	second := lateCounts{0: 190, 4: 7, 7: 3}
	if got.seconds[0] != (lateCounts{}) || got.seconds[1] != second || got.seconds[5] != second {
		t.Errorf("got seconds %v, want %v in each that is over", got.seconds, second)
	}
	if want := (lateCounts{0: 1900, 4: 70, 7: 30}); got.tens[1] != want || got.tens[0].total() != 5*200 {
		t.Errorf("got tens %v, want %v in each that is over", got.tens[:4], want)
	}
	if got.since != 25*time.Second || got.patience != leastPatience {
		t.Errorf("got counts since %v and a patience of %v", got.since, got.patience)
	}
	w.pass(400 * time.Second)
	if got := w.report(lateReport{}).evidence; got.tens[0].total() != 0 || got.tens[31].total() != 0 || got.seconds[1].total() != 0 {
		t.Errorf("got counts %v of a time that is past", got.tens)
	}
}

// A node that is broken can't report what no node can have had, nor what is no count.
func TestAbsurdReportsAreRefused(t *testing.T) {
	t.Parallel()
	w := newLateWorld(t, autoContract(time.Second))
	for _, counts := range []lateCounts{{0: 1 << 40}, {3: 300 * 40}, {0: -5, 1: 10}} {
		if _, err := w.script.run(t.Context(), lateReport{counts: counts}); err == nil || !strings.Contains(err.Error(), "COUNTS") {
			t.Errorf("%v: got error %v, want COUNTS", counts, err)
		}
	}
	if got := w.report(lateReport{}).evidence; got.tens[0].total() != 0 {
		t.Errorf("got counts %v, want none", got.tens[0])
	}
	w.redis.HSet("dispatcher:{late}:lateness:provider", "s0", "rubbish", "t1", "1 2 3", "", "x", "s1", "1 -1 0 0 0 0 0 0 0")
	w.pass(time.Second)
	if got := w.report(lateReport{counts: lateCounts{9}}); !got.mine || got.evidence.seconds[0] != (lateCounts{9}) {
		t.Errorf("got %+v of a hash that holds rubbish", got)
	}
}

// While a guard is stated nothing is counted, and nobody chooses.
func TestNothingIsCountedUnderAStatedGuard(t *testing.T) {
	t.Parallel()
	w := newLateWorld(t, contract(300))
	if got := w.report(lateReport{counts: lateCounts{100}}); got.mine {
		t.Errorf("got %+v under a stated guard", got)
	}
	if w.redis.Exists("dispatcher:{late}:lateness:provider") {
		t.Error("slots were counted under a stated guard")
	}
}

// When the lateness has risen the counts begin again. How patient the fleet is
// outlives that.
func TestCountsBeginAgainWhenTheLatenessRose(t *testing.T) {
	t.Parallel()
	w := newLateWorld(t, autoContract(time.Second))
	w.report(lateReport{counts: lateCounts{100}})
	w.pass(time.Second)
	w.report(lateReport{moved: movedDown})
	w.pass(time.Minute)
	w.report(lateReport{moved: movedUp, patience: 10 * time.Minute})
	w.pass(time.Second)
	got := w.report(lateReport{})
	if !got.mine || got.evidence.tens[6].total() != 0 || got.evidence.since != time.Second {
		t.Errorf("got %+v, want no counts from before", got.evidence)
	}
	if got.evidence.patience != 10*time.Minute || got.fell != 61*time.Second {
		t.Errorf("got a patience of %v and a fall %v ago, want 10m and 61s", got.evidence.patience, got.fell)
	}
}

// The patience doubles when the lateness rises soon after it fell, within bounds.
func TestPatienceGrowsOnTheEdge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ patience, fell, want time.Duration }{
		{leastPatience, -1, leastPatience},
		{leastPatience, time.Minute, 10 * time.Minute},
		{leastPatience, 11 * time.Minute, leastPatience},
		{40 * time.Minute, time.Minute, time.Hour},
		{time.Hour, 3 * time.Hour, leastPatience},
	} {
		if got := patienceAfter(c.patience, c.fell); got != c.want {
			t.Errorf("patience %v, fell %v ago: got %v, want %v", c.patience, c.fell, got, c.want)
		}
	}
}

// A choice is a change like any other: in the history, by the dispatcher, with a
// revision; and only one of two nodes that choose at once makes it.
func TestChoiceIsAChangeLikeAnyOther(t *testing.T) {
	t.Parallel()
	w := newLateWorld(t, autoContract(time.Second))
	before := w.settings()
	after := w.choose(20 * time.Millisecond)
	if after.Lateness != 20*time.Millisecond || after.Guard != 27*time.Millisecond || after.Revision != before.Revision+1 || after.By != Dispatcher {
		t.Errorf("got %v, revision %d by %s", after.Contract, after.Revision, after.By)
	}
	late := before.withLateness(latenessChoice{lateness: 50 * time.Millisecond}, w.now)
	if status, err := w.control.scripts.runConfigure(t.Context(), before, late); err != nil || status != changeConflict {
		t.Errorf("a second choice by older settings: got status %d, %v, want a conflict", status, err)
	}
	trail, err := w.control.History(t.Context(), 10)
	if err != nil || len(trail) != 1 || !trail[0].Chosen() || trail[0].By != Dispatcher || trail[0].Why == "" {
		t.Errorf("got history %+v, %v", trail, err)
	}
}

// An override that leaves the guard to the fleet returns to terms with the
// lateness that was chosen meanwhile; one that states it is left alone.
func TestChoiceDuringAnOverride(t *testing.T) {
	t.Parallel()
	w := newLateWorld(t, autoContract(time.Second))
	w.set(Change{Cap: new(int64(500)), For: time.Minute})
	s := w.choose(12 * time.Millisecond)
	if s.Cap != 500 || s.Lateness != 12*time.Millisecond || s.Was.Cap != 300 || s.Was.Lateness != 12*time.Millisecond || s.Until.IsZero() {
		t.Errorf("got %v, then %v", s.Terms, s.Was)
	}
	s = w.set(Change{Guard: new(40 * time.Millisecond), Lateness: new(25 * time.Millisecond), For: time.Minute})
	if s.Auto || s.Guard != 40*time.Millisecond || !s.Was.Auto || s.Was.Lateness != 12*time.Millisecond {
		t.Errorf("got %v, then %v", s.Terms, s.Was)
	}
	if s.choosesLateness(tokenBucket()) {
		t.Error("the fleet would choose under a guard that is stated for a while")
	}
}

// An operator's guard fixes it, auto gives it back to the fleet, and a lateness
// alone is refused while the fleet chooses it.
func TestOperatorsFixTheGuardAndGiveItBack(t *testing.T) {
	t.Parallel()
	w := newLateWorld(t, autoContract(time.Second))
	w.choose(20 * time.Millisecond)
	var field *FieldError
	if _, err := w.control.Set(t.Context(), Change{Lateness: new(5 * time.Millisecond)}); !errors.As(err, &field) || field.Field != "lateness" {
		t.Errorf("a lateness under a guard of auto: got error %v", err)
	}
	if s := w.set(Change{Guard: new(15 * time.Millisecond)}); s.Auto || s.Guard != 15*time.Millisecond || s.Lateness != 8*time.Millisecond {
		t.Errorf("got %v, want guard 15ms and lateness 8ms", s.Contract)
	}
	if s := w.set(Change{Spread: new(2 * time.Millisecond)}); s.Guard != 15*time.Millisecond || s.Spread != 2*time.Millisecond {
		t.Errorf("got %v, want the guard as stated", s.Contract)
	}
	if s := w.set(Change{Auto: new(true)}); !s.Auto || s.Lateness != 8*time.Millisecond || s.Guard != 10*time.Millisecond {
		t.Errorf("got %v, want auto with lateness 8ms and spread 2ms", s.Contract)
	}
	if s := w.set(Change{Window: new(200 * time.Millisecond)}); s.Lateness != 8*time.Millisecond {
		t.Errorf("got %v, want a lateness that fits", s.Contract)
	}
	if s := w.set(Change{Window: new(100 * time.Millisecond)}); s.Lateness != 5*time.Millisecond || s.Validate() != nil {
		t.Errorf("got %v, want the longest lateness that fits a window of 100ms", s.Contract)
	}
}

// Undo takes back what an operator did, not what the fleet chose since; and gives
// a guard back to the fleet.
func TestUndoPassesChoicesOver(t *testing.T) {
	t.Parallel()
	w := newLateWorld(t, autoContract(time.Second))
	w.choose(5 * time.Millisecond)
	if _, err := w.control.Undo(t.Context(), 0, Change{}); !errors.Is(err, ErrNotInTrail) {
		t.Errorf("undo without a change by an operator: got error %v", err)
	}
	w.set(Change{Cap: new(int64(200))})
	w.choose(20 * time.Millisecond)
	s, err := w.control.Undo(t.Context(), 0, Change{})
	if err != nil || s.Cap != 300 || s.Lateness != 20*time.Millisecond || !s.Auto {
		t.Errorf("got %v, %v, want the old cap and the lateness that was chosen", s.Terms, err)
	}
	fixed := w.set(Change{Guard: new(15 * time.Millisecond)})
	s, err = w.control.Undo(t.Context(), 0, Change{})
	if err != nil || !s.Auto || s.Lateness != 20*time.Millisecond {
		t.Errorf("got %v, %v, want auto again", s.Terms, err)
	}
	s, err = w.control.Undo(t.Context(), fixed.Revision, Change{})
	if err != nil || s.Auto || s.Guard != 15*time.Millisecond || s.Lateness != 8*time.Millisecond {
		t.Errorf("got %v, %v, want the guard that was stated", s.Terms, err)
	}
}

// Each slot is counted once: when it was used, when its call could not be written,
// or when nobody took it in time.
func TestEachSlotIsCountedOnce(t *testing.T) {
	t.Parallel()
	at := time.Now()
	slot := Slot{NotBefore: at, NotAfter: at.Add(2900 * time.Microsecond), lateness: 3 * time.Millisecond}
	l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Seed: autoContract(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	l.Used(slot, at.Add(time.Millisecond))
	l.Used(slot, slot.NotAfter)
	l.line.missed(slot, at.Add(7*time.Millisecond))
	l.line.add([]Slot{slot, slot, {full: true, NotAfter: at}}, at)
	l.line.state(at.Add(45 * time.Millisecond))
	l.line.state(at.Add(time.Second))
	l.line.missed(slot, at.Add(time.Minute))
	if got, want := l.line.counter.totals(), (lateCounts{0: 2, 2: 1, 6: 2, 7: 1}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A node reports when it has used fifty slots, or some after fifteen seconds; one
// without slots reports nothing.
func TestNodesReportWhatIsWorthACall(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	for _, c := range []struct {
		slots int64
		after time.Duration
		want  bool
	}{
		{0, time.Hour, false},
		{49, 14 * time.Second, false},
		{1, 15 * time.Second, true},
		{50, 900 * time.Millisecond, false},
		{50, time.Second, true},
	} {
		r := lateReporter{said: lateCounts{7, 1}, saidAt: begin}
		news, got := r.due(lateCounts{7 + c.slots, 1}, begin.Add(c.after))
		if got != c.want || news != (lateCounts{c.slots}) {
			t.Errorf("%d slots after %v: got %v, %v, want %v", c.slots, c.after, news, got, c.want)
		}
	}
}
