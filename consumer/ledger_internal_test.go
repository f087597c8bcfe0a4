package consumer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// world is the truth that a ledger is judged by.
type world struct {
	ledger   ledger
	next     int64              // the next offset of the log
	waits    int64              // an offset that the ledger had no room for; 0: none
	open     map[int64]bool     // handed out, not complete
	complete map[int64]bool     // jobs that are complete
	jobs     map[int64]bool     // offsets that hold a job
	past     map[int64]Attempts // of those that are open and failed
}

func newWorld(base int64) *world {
	return &world{ledger: newLedger(base), next: base, open: map[int64]bool{}, complete: map[int64]bool{}, jobs: map[int64]bool{}, past: map[int64]Attempts{}}
}

// step fetches or completes something.
func (w *world) step(t *rapid.T) {
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0, 1, 2, 3:
		w.fetch(t, rapid.Int64Range(0, 3).Draw(t, "gap"))
	case 4:
		w.fetch(t, rapid.SampledFrom([]int64{0, 100, spanCap - 1, spanCap, 3 * spanCap}).Draw(t, "wide gap"))
	case 5:
		w.ledger.passTo(w.next)
	case 6:
		w.failOne(t)
	default:
		w.completeOne(t)
	}
}

func (w *world) fetch(t *rapid.T, gap int64) {
	o := w.next + gap
	if w.waits > 0 {
		o = w.waits
	}
	w.waits = 0
	switch w.ledger.admit(o) {
	case admitOpen:
		w.open[o], w.jobs[o] = true, true
		w.next = o + 1
	case admitSkip:
		if !w.complete[o] {
			t.Fatalf("offset %d was skipped and is not complete", o)
		}
		w.next = max(w.next, o+1)
	case admitFull:
		if len(w.open) == 0 {
			t.Fatalf("offset %d was refused with nothing open", o)
		}
		w.waits = o
	}
}

func (w *world) completeOne(t *rapid.T) {
	offsets := sortedKeys(w.open)
	if len(offsets) == 0 {
		return
	}
	o := rapid.SampledFrom(offsets).Draw(t, "complete")
	w.ledger.complete(o)
	delete(w.open, o)
	w.complete[o] = true
	delete(w.past, o)
}

func (w *world) failOne(t *rapid.T) {
	offsets := sortedKeys(w.open)
	if len(offsets) == 0 {
		return
	}
	o := rapid.SampledFrom(offsets).Draw(t, "fail")
	p := w.past[o]
	p.Failures++
	p.Calls = max(p.Calls, p.Failures) + rapid.IntRange(0, 300).Draw(t, "other calls")
	rev := w.ledger.rev
	w.ledger.remember(o, p)
	if w.past[o] = p; w.ledger.rev == rev {
		t.Fatalf("offset %d failed once more, and there is nothing to commit", o)
	}
}

func sortedKeys(m map[int64]bool) []int64 {
	var all []int64
	for o := range m {
		all = append(all, o)
	}
	// A fixed order, so that a failure can be replayed.
	for i := range all {
		for j := i; j > 0 && all[j] < all[j-1]; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
	return all
}

// check states the laws of a ledger.
func (w *world) check(t *rapid.T) {
	l := &w.ledger
	for o := range w.open {
		if l.base > o {
			t.Fatalf("the commit point %d passed the open offset %d", l.base, o)
		}
	}
	if len(w.open) == 0 && l.base != l.end {
		t.Fatalf("nothing is open and the commit point %d is not at the end %d", l.base, l.end)
	}
	if l.open != len(w.open) {
		t.Fatalf("got %d open, want %d", l.open, len(w.open))
	}
	if len(l.pasts) != len(w.past) {
		t.Fatalf("got the pasts %v, want %v", l.pasts, w.past)
	}
	for o, want := range w.past {
		if got, ok := l.pasts.get(o); !ok || got != want {
			t.Fatalf("offset %d: got the past %+v, want %+v", o, got, want)
		}
	}
	s := l.snapshot()
	id := topicID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "topic"))
	for _, m := range []metadata{{marks: s.marks}, {topic: id, marks: s.marks, pasts: s.pasts}} {
		text := m.encode()
		got, err := decodeMetadata(text)
		if err != nil || got.topic != m.topic || got.marks != m.marks || !slices.Equal(got.pasts, m.pasts) || len(text) > maxMetadata {
			t.Fatalf("%+v does not survive its encoding %q: %v", m, text, err)
		}
	}
	for o := range w.jobs {
		if rel := o - s.base; rel >= 0 && rel < int64(s.marks.n) && s.marks.done(rel) != w.complete[o] {
			t.Fatalf("offset %d: got complete %v, want %v", o, s.marks.done(rel), w.complete[o])
		}
		if rel := o - s.base; rel >= int64(s.marks.n) && w.complete[o] {
			t.Fatalf("offset %d is complete and not marked", o)
		}
	}
}

func TestWatermarkNeverPassesAnOpenOffset(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.Int64Range(0, 1<<40).Draw(t, "base"))
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			w.step(t)
			w.check(t)
		}
	})
}

// A new owner that starts with a snapshot gets exactly the jobs that were not
// complete at the time, whatever the old one did afterwards.
func TestRedeliveryAfterASnapshot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.Int64Range(0, 1<<40).Draw(t, "base"))
		for owner := range 3 {
			for range rapid.IntRange(0, 100).Draw(t, "steps") {
				w.step(t)
			}
			s := w.ledger.snapshot()
			said := metadata{topic: topicID{1}, marks: s.marks, pasts: s.pasts}
			m, err := decodeMetadata(said.encode())
			if err != nil {
				t.Fatal(err)
			}
			next := newLedger(s.base)
			next.restore(&m)
			w.ledger, w.open = next, map[int64]bool{}
			for _, o := range sortedKeys(w.jobs) {
				if o < s.base {
					if !w.complete[o] {
						t.Fatalf("owner %d: offset %d was left behind", owner, o)
					}
					continue
				}
				admitted := w.ledger.admit(o)
				if (admitted == admitOpen) == w.complete[o] || admitted == admitFull {
					t.Fatalf("owner %d: offset %d: got admission %d, complete %v", owner, o, admitted, w.complete[o])
				}
				if admitted == admitOpen {
					w.open[o] = true
				}
			}
			w.check(t)
		}
	})
}

func TestForgottenMarksAreWorkedAgain(t *testing.T) {
	t.Parallel()
	l := newLedger(10)
	var m metadata
	m.marks.set(2)
	m.pasts.set(1, Attempts{Calls: 3, Failures: 3})
	l.restore(&m)
	l.forget()
	for o := int64(10); o < 14; o++ {
		if got := l.admit(o); got != admitOpen {
			t.Errorf("offset %d: got admission %d, want %d", o, got, admitOpen)
		}
		if past, ok := l.pasts.get(o); ok {
			t.Errorf("offset %d: got the past %+v of another log", o, past)
		}
	}
}

func TestLedgerIgnoresWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	l := newLedger(10)
	l.admit(10)
	for _, o := range []int64{9, 11, 1 << 40} {
		if l.complete(o) || l.base != 10 {
			t.Errorf("completing %d moved the commit point to %d", o, l.base)
		}
	}
	l.complete(10)
	if rev := l.rev; l.complete(10) || l.rev != rev || l.base != 11 {
		t.Errorf("a second completion changed the ledger: commit point %d", l.base)
	}
}

func BenchmarkLedger(b *testing.B) {
	l := newLedger(0)
	b.ReportAllocs()
	for o := int64(0); b.Loop(); o++ {
		l.admit(o)
		if o >= 256 {
			l.complete(o - 256)
		}
	}
}
