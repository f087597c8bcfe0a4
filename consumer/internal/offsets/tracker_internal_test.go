package offsets

import (
	"maps"
	"slices"
	"testing"

	"dispatcher/consumer/internal/topicname"

	"pgregory.net/rapid"
)

// model is a plain account of a partition, to compare a tracker with.
type model struct {
	tracker  Tracker
	next     int64              // the next offset of the log
	refused  int64              // an offset beyond the window, to be fetched again; 0: none
	open     map[int64]bool     // handed out, not complete
	complete map[int64]bool     // jobs that are complete
	jobs     map[int64]bool     // offsets that hold a job
	attempts map[int64]Attempts // of open jobs that failed
}

func newModel(base int64) *model {
	return &model{tracker: NewTracker(base), next: base, open: map[int64]bool{}, complete: map[int64]bool{}, jobs: map[int64]bool{}, attempts: map[int64]Attempts{}}
}

// step fetches, fails or completes a job.
func (m *model) step(t *rapid.T) {
	switch rapid.IntRange(0, 9).Draw(t, "step") {
	case 0, 1, 2, 3:
		m.fetch(t, rapid.Int64Range(0, 3).Draw(t, "gap"))
	case 4:
		m.fetch(t, rapid.SampledFrom([]int64{0, 100, Window - 1, Window, 3 * Window}).Draw(t, "wide gap"))
	case 5:
		m.tracker.SkipTo(m.next)
	case 6:
		m.failOne(t)
	default:
		m.completeOne(t)
	}
}

func (m *model) fetch(t *rapid.T, gap int64) {
	o := m.next + gap
	if m.refused > 0 {
		o = m.refused
	}
	m.refused = 0
	switch m.tracker.Admit(o) {
	case Admitted:
		m.open[o], m.jobs[o] = true, true
		m.next = o + 1
	case AlreadyComplete:
		if !m.complete[o] {
			t.Fatalf("offset %d is not complete: got admission %d, want %d", o, AlreadyComplete, Admitted)
		}
		m.next = max(m.next, o+1)
	case BeyondWindow:
		if len(m.open) == 0 {
			t.Fatalf("offset %d with nothing open: got admission %d, want %d", o, BeyondWindow, Admitted)
		}
		m.refused = o
	}
}

func (m *model) completeOne(t *rapid.T) {
	offsets := sortedKeys(m.open)
	if len(offsets) == 0 {
		return
	}
	o := rapid.SampledFrom(offsets).Draw(t, "complete")
	m.tracker.Complete(o)
	delete(m.open, o)
	m.complete[o] = true
	delete(m.attempts, o)
}

func (m *model) failOne(t *rapid.T) {
	offsets := sortedKeys(m.open)
	if len(offsets) == 0 {
		return
	}
	o := rapid.SampledFrom(offsets).Draw(t, "fail")
	a := m.attempts[o]
	a.Failures++
	a.Calls = max(a.Calls, a.Failures) + rapid.IntRange(0, 300).Draw(t, "other calls")
	rev := m.tracker.rev
	m.tracker.SetAttempts(o, a)
	if m.attempts[o] = a; m.tracker.rev == rev {
		t.Fatalf("offset %d failed once more: got revision %d again, want another one", o, rev)
	}
}

// sortedKeys gives a fixed order, so that a failure can be replayed.
func sortedKeys(m map[int64]bool) []int64 { return slices.Sorted(maps.Keys(m)) }

// check compares the tracker with the model.
func (m *model) check(t *rapid.T) {
	tr := &m.tracker
	for o := range m.open {
		if tr.low > o {
			t.Fatalf("got offset %d to commit, want at most the open offset %d", tr.low, o)
		}
	}
	if len(m.open) == 0 && tr.low != tr.end {
		t.Fatalf("nothing is open: got offset %d to commit, want the end %d", tr.low, tr.end)
	}
	if tr.open != len(m.open) {
		t.Fatalf("got %d open, want %d", tr.open, len(m.open))
	}
	if len(tr.attempts) != len(m.attempts) {
		t.Fatalf("got attempts %v, want %v", tr.attempts, m.attempts)
	}
	for o, want := range m.attempts {
		if got, ok := tr.attempts.get(o); !ok || got != want {
			t.Fatalf("offset %d: got attempts %+v, want %+v", o, got, want)
		}
	}
	s := tr.Snapshot()
	id := topicname.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "topic"))
	for _, want := range []Metadata{{Bitmap: s.Bitmap}, {Topic: id, Bitmap: s.Bitmap, Attempts: s.Attempts}} {
		text := want.Encode()
		got, err := DecodeMetadata(text)
		if err != nil || got.Topic != want.Topic || got.Bitmap != want.Bitmap || !slices.Equal(got.Attempts, want.Attempts) || len(text) > maxMetadata {
			t.Fatalf("%q of %d characters: got %+v and error %v, want %+v", text, len(text), got, err, want)
		}
	}
	for o := range m.jobs {
		if rel := o - s.Low; rel >= 0 && rel < int64(s.Bitmap.N) && s.Bitmap.Has(rel) != m.complete[o] {
			t.Fatalf("offset %d: got complete %v, want %v", o, s.Bitmap.Has(rel), m.complete[o])
		}
		if rel := o - s.Low; rel >= int64(s.Bitmap.N) && m.complete[o] {
			t.Fatalf("offset %d: got %d offsets in the bitmap, want this complete one among them", o, s.Bitmap.N)
		}
	}
}

func TestWatermarkNeverPassesAnOpenOffset(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(rapid.Int64Range(0, 1<<40).Draw(t, "base"))
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			m.step(t)
			m.check(t)
		}
	})
}

// loseOldest has retention delete the oldest jobs of the log.
func (m *model) loseOldest(t *rapid.T) {
	jobs := sortedKeys(m.jobs)
	for _, o := range jobs[:rapid.IntRange(0, len(jobs)).Draw(t, "lost")] {
		delete(m.jobs, o)
		delete(m.attempts, o)
	}
}

// A new owner that begins with a snapshot gets exactly the jobs that were not complete at that
// time and are still in the log, whatever the former owner did afterwards.
func TestRedeliveryAfterASnapshot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(rapid.Int64Range(0, 1<<40).Draw(t, "base"))
		for owner := range 3 {
			for range rapid.IntRange(0, 100).Draw(t, "steps") {
				m.step(t)
			}
			s := m.tracker.Snapshot()
			committed := Metadata{Topic: topicname.ID{1}, Bitmap: s.Bitmap, Attempts: s.Attempts}
			read, err := DecodeMetadata(committed.Encode())
			if err != nil {
				t.Fatal(err)
			}
			next := NewTracker(s.Low)
			next.Restore(&read)
			m.tracker, m.open = next, map[int64]bool{}
			if rapid.Bool().Draw(t, "retention") {
				m.loseOldest(t)
			}
			for _, o := range sortedKeys(m.jobs) {
				if o < s.Low {
					if !m.complete[o] {
						t.Fatalf("owner %d: got offset %d committed, want at most the incomplete offset %d", owner, s.Low, o)
					}
					continue
				}
				admitted := m.tracker.Admit(o)
				if (admitted == Admitted) == m.complete[o] || admitted == BeyondWindow {
					t.Fatalf("owner %d: offset %d: got admission %d, complete %v", owner, o, admitted, m.complete[o])
				}
				if admitted == Admitted {
					m.open[o] = true
				}
			}
			m.tracker.SkipTo(m.next)
			m.check(t)
		}
	})
}

func TestDroppedOffsetsAreAdmittedAgain(t *testing.T) {
	t.Parallel()
	tr := NewTracker(10)
	var m Metadata
	m.Bitmap.set(2)
	m.Attempts.set(1, Attempts{Calls: 3, Failures: 3})
	tr.Restore(&m)
	tr.DropRestored()
	for o := int64(10); o < 14; o++ {
		if got := tr.Admit(o); got != Admitted {
			t.Errorf("offset %d: got admission %d, want %d", o, got, Admitted)
		}
		if got, ok := tr.attempts.get(o); ok {
			t.Errorf("offset %d: got attempts %+v of another log, want none", o, got)
		}
	}
}

// The job at the committed offset is gone from the log. The next one was completed by a former
// owner, so it is not open.
func TestARestoredOffsetBehindAGapIsComplete(t *testing.T) {
	t.Parallel()
	tr := NewTracker(10)
	var m Metadata
	m.Bitmap.set(2)
	m.Bitmap.set(3)
	tr.Restore(&m)
	for _, o := range []int64{12, 13} {
		if got := tr.Admit(o); got != AlreadyComplete {
			t.Errorf("offset %d: got admission %d, want %d", o, got, AlreadyComplete)
		}
	}
	if tr.Low() != 14 || tr.End() != 14 || tr.Open() != 0 {
		t.Errorf("got offset %d to commit, end %d and %d open, want 14, 14 and 0", tr.Low(), tr.End(), tr.Open())
	}
}

func TestTrackerIgnoresUnknownOffsets(t *testing.T) {
	t.Parallel()
	tr := NewTracker(10)
	tr.Admit(10)
	for _, o := range []int64{9, 11, 1 << 40} {
		if tr.Complete(o) || tr.low != 10 {
			t.Errorf("unknown offset %d completed: got offset %d to commit, want 10", o, tr.low)
		}
	}
	tr.Complete(10)
	if rev := tr.rev; tr.Complete(10) || tr.rev != rev || tr.low != 11 {
		t.Errorf("completed twice: got offset %d to commit and revision %d, want 11 and %d", tr.low, tr.rev, rev)
	}
}

func BenchmarkTracker(b *testing.B) {
	tr := NewTracker(0)
	b.ReportAllocs()
	for o := int64(0); b.Loop(); o++ {
		tr.Admit(o)
		if o >= 256 {
			tr.Complete(o - 256)
		}
	}
}
