package throttle

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/fault"
	"dispatcher/throttle/control"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/lateness"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// latenessTest is a limit on an embedded Redis whose clock only the test moves.
type latenessTest struct {
	*testing.T
	redis   *miniredis.Miniredis
	rdb     redis.UniversalClient
	control *control.Control
	scripts script.Scripts
	now     time.Time
}

func newLatenessTest(t *testing.T, c limit.Contract) *latenessTest {
	t.Helper()
	w := &latenessTest{T: t, redis: miniredis.RunT(t), now: time.Unix(1_700_000_000, 0)}
	w.rdb = patient(t, w.redis.Addr())
	w.redis.SetTime(w.now)
	control, err := control.NewControl(w.rdb, "late", "provider")
	if err != nil {
		t.Fatal(err)
	}
	w.control, w.scripts = control, script.NewScripts(w.rdb, "late", "provider", "")
	seed := seeded(c)
	if err := w.rdb.HSet(t.Context(), control.Keys.Limit, "settings", seed.Pack()).Err(); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *latenessTest) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.redis.SetTime(w.now)
}

func (w *latenessTest) report(r lateness.Report) lateness.Reply {
	w.Helper()
	reply, err := r.Send(w.Context(), w.scripts)
	if err != nil {
		w.Fatal(err)
	}
	return reply
}

func (w *latenessTest) settings() limit.Settings {
	w.Helper()
	s, err := w.control.Get(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *latenessTest) set(ch control.Change) limit.Settings {
	w.Helper()
	s, err := w.control.Set(w.Context(), ch)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// choose makes the lateness another one, as a node does.
func (w *latenessTest) choose(lateness time.Duration) limit.Settings {
	w.Helper()
	w.pass(time.Second)
	s := w.settings()
	to := s.WithLateness(lateness, "guard auto: by a test", w.now)
	if status, err := w.scripts.Configure(w.Context(), s, to); err != nil || status != script.ChangeDone {
		w.Fatalf("got status %d, %v", status, err)
	}
	return w.settings()
}

// The counts of all nodes are added, each in its second and its ten seconds, and
// one node a second gets them.
func TestReportsAreAddedAndHandedOutOnceASecond(t *testing.T) {
	t.Parallel()
	w := newLatenessTest(t, autoContract(time.Second))
	for range 25 {
		a, b := w.report(lateness.Report{Counts: lateness.Counts{90, 0, 0, 0, 7}}), w.report(lateness.Report{Counts: lateness.Counts{100, 0, 0, 0, 0, 0, 0, 3}})
		if !a.Chooses || b.Chooses {
			t.Fatalf("got turns %v and %v in one second, want the first only", a.Chooses, b.Chooses)
		}
		w.pass(time.Second)
	}
	got := w.report(lateness.Report{}).Evidence
	second := lateness.Counts{0: 190, 4: 7, 7: 3}
	if got.Seconds[0] != (lateness.Counts{}) || got.Seconds[1] != second || got.Seconds[5] != second {
		t.Errorf("got seconds %v, want %v in each that is over", got.Seconds, second)
	}
	if want := (lateness.Counts{0: 1900, 4: 70, 7: 30}); got.Tens[1] != want || got.Tens[0].Total() != 5*200 {
		t.Errorf("got tens %v, want %v in each that is over", got.Tens[:4], want)
	}
	if got.Since != 25*time.Second || got.Patience != lateness.LeastPatience {
		t.Errorf("got counts since %v and a patience of %v", got.Since, got.Patience)
	}
	w.pass(400 * time.Second)
	if got := w.report(lateness.Report{}).Evidence; got.Tens[0].Total() != 0 || got.Tens[31].Total() != 0 || got.Seconds[1].Total() != 0 {
		t.Errorf("got counts %v of a time that is past", got.Tens)
	}
}

// A node that is broken can't report what no node can have had, nor what is no count.
func TestAbsurdReportsAreRefused(t *testing.T) {
	t.Parallel()
	w := newLatenessTest(t, autoContract(time.Second))
	for _, counts := range []lateness.Counts{{0: 1 << 40}, {3: 300 * 40}, {0: -5, 1: 10}} {
		if _, err := (lateness.Report{Counts: counts}).Send(t.Context(), w.scripts); err == nil || !strings.Contains(err.Error(), "COUNTS") {
			t.Errorf("%v: got error %v, want COUNTS", counts, err)
		}
	}
	if got := w.report(lateness.Report{}).Evidence; got.Tens[0].Total() != 0 {
		t.Errorf("got counts %v, want none", got.Tens[0])
	}
	w.redis.HSet("dispatcher:{late}:lateness:provider", "s0", "rubbish", "t1", "1 2 3", "", "x", "s1", "1 -1 0 0 0 0 0 0 0")
	w.pass(time.Second)
	if got := w.report(lateness.Report{Counts: lateness.Counts{9}}); !got.Chooses || got.Evidence.Seconds[0] != (lateness.Counts{9}) {
		t.Errorf("got %+v of a hash that holds rubbish", got)
	}
}

// Counts that were refused are not reported again: they would be refused for ever, as many are under a cap that was cut.
func TestRefusedCountsAreForgotten(t *testing.T) {
	t.Parallel()
	w := newLatenessTest(t, autoContract(time.Second))
	counter := new(lateness.Counter)
	r := lateness.Reporter{Counter: counter, Trips: new(lateness.TripNotes), Log: slog.New(slog.DiscardHandler), Send: func(ctx context.Context, report lateness.Report) (lateness.Reply, error) {
		return report.Send(ctx, w.scripts)
	}}
	known, begin := seeded(autoContract(time.Second)), time.Now()
	for range 300 * 40 {
		counter.Count(0)
	}
	r.Report(t.Context(), known, begin)
	for range 60 {
		counter.Count(0)
	}
	r.Report(t.Context(), known, begin.Add(time.Second))
	w.pass(time.Second)
	if got := w.report(lateness.Report{}).Evidence.Tens[0].Total(); got != 60 {
		t.Errorf("got %d slots counted, want the 60 of the second report", got)
	}
}

// Counting begins again where its begin lies ahead, because the clock was set back.
func TestCountingBeginsAgainAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	w := newLatenessTest(t, autoContract(time.Second))
	w.redis.HSet("dispatcher:{late}:lateness:provider", "since", strconv.FormatInt(1<<52, 10))
	w.report(lateness.Report{Counts: lateness.Counts{9}})
	w.pass(time.Minute)
	if got := w.report(lateness.Report{}).Evidence.Since; got != time.Minute {
		t.Errorf("got counting begun %v ago, want 1m", got)
	}
}

// While a guard is stated nothing is counted, and nobody chooses.
func TestNothingIsCountedUnderAStatedGuard(t *testing.T) {
	t.Parallel()
	w := newLatenessTest(t, contract(300))
	if got := w.report(lateness.Report{Counts: lateness.Counts{100}}); got.Chooses {
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
	w := newLatenessTest(t, autoContract(time.Second))
	w.report(lateness.Report{Counts: lateness.Counts{100}})
	w.pass(time.Second)
	w.report(lateness.Report{Moved: lateness.MovedDown})
	w.pass(time.Minute)
	w.report(lateness.Report{Moved: lateness.MovedUp, Patience: 10 * time.Minute})
	w.pass(time.Second)
	got := w.report(lateness.Report{})
	if !got.Chooses || got.Evidence.Tens[6].Total() != 0 || got.Evidence.Since != time.Second {
		t.Errorf("got %+v, want no counts from before", got.Evidence)
	}
	if got.Evidence.Patience != 10*time.Minute || got.Fell != 61*time.Second {
		t.Errorf("got a patience of %v and a fall %v ago, want 10m and 61s", got.Evidence.Patience, got.Fell)
	}
}

// The patience doubles when the lateness rises soon after it fell, within bounds.
func TestPatienceGrowsOnTheEdge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ patience, fell, want time.Duration }{
		{lateness.LeastPatience, -1, lateness.LeastPatience},
		{lateness.LeastPatience, time.Minute, 10 * time.Minute},
		{lateness.LeastPatience, 11 * time.Minute, lateness.LeastPatience},
		{40 * time.Minute, time.Minute, time.Hour},
		{time.Hour, 3 * time.Hour, lateness.LeastPatience},
	} {
		if got := lateness.PatienceAfter(c.patience, c.fell); got != c.want {
			t.Errorf("patience %v, fell %v ago: got %v, want %v", c.patience, c.fell, got, c.want)
		}
	}
}

// What is written can be read: with settings that no node can read, the whole fleet would stop.
func TestSettingsThatNoNodeCouldReadAreNotWritten(t *testing.T) {
	t.Parallel()
	w := newLatenessTest(t, autoContract(time.Second))
	before := w.settings()
	to := before.WithLateness(20*time.Millisecond, "", w.now)
	to.Exceptions = limit.Exceptions(strings.Repeat("x", 1<<20))
	if _, err := w.scripts.Configure(t.Context(), before, to); err == nil || !strings.Contains(err.Error(), "bytes are more than") {
		t.Errorf("got error %v, want one that names the size", err)
	}
	if after := w.settings(); after.Revision != before.Revision {
		t.Errorf("got revision %d, want still %d", after.Revision, before.Revision)
	}
}

// A choice is a change like any other: in the history, by the dispatcher, with a
// revision; and only one of two nodes that choose at once makes it.
func TestChoiceIsAChangeLikeAnyOther(t *testing.T) {
	t.Parallel()
	w := newLatenessTest(t, autoContract(time.Second))
	before := w.settings()
	after := w.choose(20 * time.Millisecond)
	if after.Lateness != 20*time.Millisecond || after.Guard != 27*time.Millisecond || after.Revision != before.Revision+1 || after.By != limit.Dispatcher {
		t.Errorf("got %v, revision %d by %s", after.Contract, after.Revision, after.By)
	}
	late := before.WithLateness(50*time.Millisecond, "", w.now)
	if status, err := w.scripts.Configure(t.Context(), before, late); err != nil || status != script.ChangeConflict {
		t.Errorf("a second choice by older settings: got status %d, %v, want a conflict", status, err)
	}
	history, err := w.control.History(t.Context(), 10)
	if err != nil || len(history) != 1 || !history[0].Chosen() || history[0].To.By != limit.Dispatcher || history[0].To.Why == "" {
		t.Errorf("got history %+v, %v", history, err)
	}
}

// An override that leaves the guard to the fleet returns to terms with the
// lateness that was chosen meanwhile; one that states it is left alone.
func TestChoiceDuringAnOverride(t *testing.T) {
	t.Parallel()
	w := newLatenessTest(t, autoContract(time.Second))
	w.set(control.Change{Values: parameters.Values{"cap": "500"}, For: time.Minute})
	s := w.choose(12 * time.Millisecond)
	if s.Cap != 500 || s.Lateness != 12*time.Millisecond || s.RevertTo.Cap != 300 || s.RevertTo.Lateness != 12*time.Millisecond || s.RevertAt.IsZero() {
		t.Errorf("got %v, then %v", s.Terms, s.RevertTo)
	}
	s = w.set(control.Change{Values: parameters.Values{"guard": "40ms", "lateness": "25ms"}, For: time.Minute})
	spans := s.Spans()
	if last := spans[len(spans)-1]; s.Auto || s.Guard != 40*time.Millisecond || !last.Auto || last.Lateness != 12*time.Millisecond {
		t.Errorf("got %v", spans)
	}
	if s.ChoosesLateness() {
		t.Error("the fleet would choose under a guard that is stated for a while")
	}
}

// An operator's guard fixes it, auto gives it back to the fleet, and a lateness
// alone is refused while the fleet chooses it.
func TestOperatorsFixTheGuardAndGiveItBack(t *testing.T) {
	t.Parallel()
	w := newLatenessTest(t, autoContract(time.Second))
	w.choose(20 * time.Millisecond)
	var field *fault.Error
	if _, err := w.control.Set(t.Context(), control.Change{Values: parameters.Values{"lateness": "5ms"}}); !errors.As(err, &field) || field.Field != "lateness" {
		t.Errorf("a lateness under a guard of auto: got error %v", err)
	}
	if s := w.set(control.Change{Values: parameters.Values{"guard": "15ms"}}); s.Auto || s.Guard != 15*time.Millisecond || s.Lateness != 8*time.Millisecond {
		t.Errorf("got %v, want guard 15ms and lateness 8ms", s.Contract)
	}
	if s := w.set(control.Change{Values: parameters.Values{"spread": "2ms"}}); s.Guard != 15*time.Millisecond || s.Spread != 2*time.Millisecond {
		t.Errorf("got %v, want the guard as stated", s.Contract)
	}
	if s := w.set(control.Change{Values: parameters.Values{"guard": parameters.Auto}}); !s.Auto || s.Lateness != 8*time.Millisecond || s.Guard != 10*time.Millisecond {
		t.Errorf("got %v, want auto with lateness 8ms and spread 2ms", s.Contract)
	}
	if s := w.set(control.Change{Values: parameters.Values{"window": "200ms"}}); s.Lateness != 8*time.Millisecond {
		t.Errorf("got %v, want a lateness that fits", s.Contract)
	}
	if s := w.set(control.Change{Values: parameters.Values{"window": "100ms"}}); s.Lateness != 5*time.Millisecond || s.Contract.Validate() != nil {
		t.Errorf("got %v, want the longest lateness that fits a window of 100ms", s.Contract)
	}
}

// Undo takes back what an operator did, not what the fleet chose since; and gives
// a guard back to the fleet.
func TestUndoPassesChoicesOver(t *testing.T) {
	t.Parallel()
	w := newLatenessTest(t, autoContract(time.Second))
	w.choose(5 * time.Millisecond)
	if _, err := w.control.Undo(t.Context(), 0, control.Change{}); !errors.Is(err, control.ErrNotInHistory) {
		t.Errorf("undo without a change by an operator: got error %v", err)
	}
	w.set(control.Change{Values: parameters.Values{"cap": "200"}})
	w.choose(20 * time.Millisecond)
	s, err := w.control.Undo(t.Context(), 0, control.Change{})
	if err != nil || s.Cap != 300 || s.Lateness != 20*time.Millisecond || !s.Auto {
		t.Errorf("got %v, %v, want the old cap and the lateness that was chosen", s.Terms, err)
	}
	fixed := w.set(control.Change{Values: parameters.Values{"guard": "15ms"}})
	s, err = w.control.Undo(t.Context(), 0, control.Change{})
	if err != nil || !s.Auto || s.Lateness != 20*time.Millisecond {
		t.Errorf("got %v, %v, want auto again", s.Terms, err)
	}
	s, err = w.control.Undo(t.Context(), fixed.Revision, control.Change{})
	if err != nil || s.Auto || s.Guard != 15*time.Millisecond || s.Lateness != 8*time.Millisecond {
		t.Errorf("got %v, %v, want the guard that was stated", s.Terms, err)
	}
}

// Each slot is counted once: when it was used, when its call could not be written,
// or when nobody took it in time.
func TestEachSlotIsCountedOnce(t *testing.T) {
	t.Parallel()
	l, err := New(Options{Redis: &redis.Client{}, Namespace: "ns", Name: "provider", Limit: specOf(autoContract(time.Second))})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	const spread = 3 * time.Millisecond
	slot := l.slots.Slot(at, at.Add(2900*time.Microsecond), spread, l.slots.Suspended(), nil)
	l.Used(slot, at.Add(time.Millisecond))
	l.Used(slot, slot.NotAfter)
	for _, late := range []time.Duration{4 * time.Millisecond, 42 * time.Millisecond, 42 * time.Millisecond, time.Minute} {
		missed := slot
		missed.NotBefore, missed.NotAfter = time.Now().Add(-late-spread), time.Now().Add(-late)
		l.Missed(missed)
	}
	given := slot
	given.NotAfter = time.Now().Add(time.Hour)
	l.Missed(given) // its job could not be called
	if got, want := l.counter.Totals(), (lateness.Counts{0: 2, 2: 1, 6: 2, 7: 1}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
