package offsets

import (
	"slices"
	"testing"

	"dispatcher/consumer/internal/topicname"

	"pgregory.net/rapid"
)

// world is the truth that a ledger is judged by.
type world struct {
	ledger   Tracker
	next     int64              // the next offset of the log
	waits    int64              // an offset that the ledger had no room for; 0: none
	open     map[int64]bool     // handed out, not complete
	complete map[int64]bool     // jobs that are complete
	jobs     map[int64]bool     // offsets that hold a job
	past     map[int64]Attempts // of those that are open and failed
}

func newWorld(base int64) *world {
	return &world{ledger: NewTracker(base), next: base, open: map[int64]bool{}, complete: map[int64]bool{}, jobs: map[int64]bool{}, past: map[int64]Attempts{}}
}

// step fetches or completes something.
func (w *world) step(t *rapid.T) {
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0, 1, 2, 3:
		w.fetch(t, rapid.Int64Range(0, 3).Draw(t, "gap"))
	case 4:
		w.fetch(t, rapid.SampledFrom([]int64{0, 100, Window - 1, Window, 3 * Window}).Draw(t, "wide gap"))
	case 5:
		w.ledger.SkipTo(w.next)
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
	switch w.ledger.Admit(o) {
	case Admitted:
		w.open[o], w.jobs[o] = true, true
		w.next = o + 1
	case AlreadyComplete:
		if !w.complete[o] {
			t.Fatalf("offset %d was skipped and is not complete", o)
		}
		w.next = max(w.next, o+1)
	case BeyondWindow:
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
	w.ledger.Complete(o)
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
	w.ledger.SetAttempts(o, p)
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
		if l.low > o {
			t.Fatalf("the commit point %d passed the open offset %d", l.low, o)
		}
	}
	if len(w.open) == 0 && l.low != l.end {
		t.Fatalf("nothing is open and the commit point %d is not at the end %d", l.low, l.end)
	}
	if l.open != len(w.open) {
		t.Fatalf("got %d open, want %d", l.open, len(w.open))
	}
	if len(l.attempts) != len(w.past) {
		t.Fatalf("got the pasts %v, want %v", l.attempts, w.past)
	}
	for o, want := range w.past {
		if got, ok := l.attempts.get(o); !ok || got != want {
			t.Fatalf("offset %d: got the past %+v, want %+v", o, got, want)
		}
	}
	s := l.Snapshot()
	id := topicname.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "topic"))
	for _, m := range []Metadata{{Bitmap: s.Bitmap}, {Topic: id, Bitmap: s.Bitmap, Attempts: s.Attempts}} {
		text := m.Encode()
		got, err := DecodeMetadata(text)
		if err != nil || got.Topic != m.Topic || got.Bitmap != m.Bitmap || !slices.Equal(got.Attempts, m.Attempts) || len(text) > maxMetadata {
			t.Fatalf("%+v does not survive its encoding %q: %v", m, text, err)
		}
	}
	for o := range w.jobs {
		if rel := o - s.Low; rel >= 0 && rel < int64(s.Bitmap.N) && s.Bitmap.Has(rel) != w.complete[o] {
			t.Fatalf("offset %d: got complete %v, want %v", o, s.Bitmap.Has(rel), w.complete[o])
		}
		if rel := o - s.Low; rel >= int64(s.Bitmap.N) && w.complete[o] {
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
			s := w.ledger.Snapshot()
			said := Metadata{Topic: topicname.ID{1}, Bitmap: s.Bitmap, Attempts: s.Attempts}
			m, err := DecodeMetadata(said.Encode())
			if err != nil {
				t.Fatal(err)
			}
			next := NewTracker(s.Low)
			next.Restore(&m)
			w.ledger, w.open = next, map[int64]bool{}
			for _, o := range sortedKeys(w.jobs) {
				if o < s.Low {
					if !w.complete[o] {
						t.Fatalf("owner %d: offset %d was left behind", owner, o)
					}
					continue
				}
				admitted := w.ledger.Admit(o)
				if (admitted == Admitted) == w.complete[o] || admitted == BeyondWindow {
					t.Fatalf("owner %d: offset %d: got admission %d, complete %v", owner, o, admitted, w.complete[o])
				}
				if admitted == Admitted {
					w.open[o] = true
				}
			}
			w.check(t)
		}
	})
}

func TestForgottenMarksAreWorkedAgain(t *testing.T) {
	t.Parallel()
	l := NewTracker(10)
	var m Metadata
	m.Bitmap.set(2)
	m.Attempts.set(1, Attempts{Calls: 3, Failures: 3})
	l.Restore(&m)
	l.DropRestored()
	for o := int64(10); o < 14; o++ {
		if got := l.Admit(o); got != Admitted {
			t.Errorf("offset %d: got admission %d, want %d", o, got, Admitted)
		}
		if past, ok := l.attempts.get(o); ok {
			t.Errorf("offset %d: got the past %+v of another log", o, past)
		}
	}
}

func TestLedgerIgnoresWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	l := NewTracker(10)
	l.Admit(10)
	for _, o := range []int64{9, 11, 1 << 40} {
		if l.Complete(o) || l.low != 10 {
			t.Errorf("completing %d moved the commit point to %d", o, l.low)
		}
	}
	l.Complete(10)
	if rev := l.rev; l.Complete(10) || l.rev != rev || l.low != 11 {
		t.Errorf("a second completion changed the ledger: commit point %d", l.low)
	}
}

func BenchmarkLedger(b *testing.B) {
	l := NewTracker(0)
	b.ReportAllocs()
	for o := int64(0); b.Loop(); o++ {
		l.Admit(o)
		if o >= 256 {
			l.Complete(o - 256)
		}
	}
}
