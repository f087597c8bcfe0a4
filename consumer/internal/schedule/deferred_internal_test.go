package schedule

import (
	"testing"
	"time"
)

// deferAll defers all jobs that are ready.
func (w *bench) deferAll() (deferred []*Delivery) {
	for d := w.Take(); d != nil; d = w.Take() {
		d.SetNote(1)
		w.Defer(d, DeferOptions{Until: time.Now().Add(time.Hour), Limit: "recipient"})
		deferred = append(deferred, d)
	}
	return deferred
}

// A job waits for its limit until it is handed out again, diverted or dropped.
func TestDeferredJobsAreCountedUntilTheyGoOn(t *testing.T) {
	t.Parallel()
	l := NewLane("default", 10)
	w := newBench(l)
	a := w.NewAssignment()
	p := partition(a, l, 0)
	addJobs(p, 0, 0, 0, 0)
	all := w.deferAll()
	if got := w.Deferred()["recipient"]; got != 4 || len(all) != 4 {
		t.Fatalf("got %d jobs that wait of %d, want 4 of 4", got, len(all))
	}
	all[1].Job.NotAfter = time.Now().Add(-time.Second)
	for _, one := range w.timers.Remove(func(timer timer) bool { return timer.d == all[0] || timer.d == all[1] }) {
		w.mu.Lock()
		p.wake(one)
		l.enlist(p)
		w.fill(l)
		w.unlock()
	}
	if got := w.Deferred()["recipient"]; got != 3 {
		t.Errorf("got %d jobs that wait while one is ready and one has expired, want 3", got)
	}
	if d := w.Take(); d != all[0] || d.Note() != 1 {
		t.Fatalf("got job %v, want the first one with its place", d)
	}
	if got := w.Deferred()["recipient"]; got != 2 {
		t.Errorf("got %d jobs that wait after one was handed out, want 2", got)
	}
	a.Drain()
	if got := w.Deferred()["recipient"]; got != 0 {
		t.Errorf("got %d jobs that wait after the partition was taken away, want none", got)
	}
}

// Each rule that holds jobs has a name of its own. None is remembered for which no job waits.
func TestNoRuleIsRememberedForWhichNoJobWaits(t *testing.T) {
	t.Parallel()
	l := NewLane("default", 10)
	w := newBench(l)
	p := partition(w.NewAssignment(), l, 0)
	addJobs(p, 0, 0)
	all := w.deferAll()
	w.Resume(all)
	for range all {
		if w.Take() == nil {
			t.Fatal("got no job, want those whose wait has ended")
		}
	}
	if len(p.deferred) != 0 {
		t.Errorf("got %v remembered, want nothing", p.deferred)
	}
}

// A partition whose jobs all wait for a limit leaves places in memory to the others.
func TestAPartitionOfSleepersLeavesPlacesToOthers(t *testing.T) {
	t.Parallel()
	const atOnce = 5
	l := NewLane("default", atOnce)
	w := newBench(l)
	w.sleepers.MaxJobs = 40
	a := w.NewAssignment()
	hot, other := partition(a, l, 0), partition(a, l, 1)
	addJobs(hot, make([]byte, 60)...)
	deferred := 0
	for all := w.deferAll(); len(all) > 0; all = w.deferAll() {
		deferred += len(all)
	}
	if most := w.sleepers.MaxJobs/2 + atOnce; deferred < w.sleepers.MaxJobs/2 || deferred > most {
		t.Fatalf("got %d jobs deferred, want half of the bound, and %d at most", deferred, most)
	}
	addJobs(other, make([]byte, 10)...)
	if d := w.Take(); d == nil || d.part != other {
		t.Errorf("got job %v, want one of the other partition, while %d of the hot one sleep", d, deferred)
	}
}

// Jobs whose assignment drains are not resumed: they have no timer any more. Those of another
// assignment are, each by its own timer.
func TestJobsOfADrainedAssignmentAreNotResumed(t *testing.T) {
	t.Parallel()
	l := NewLane("default", 10)
	w := newBench(l)
	gone, other := w.NewAssignment(), w.NewAssignment()
	addJobs(partition(gone, l, 0), 0, 0, 0)
	addJobs(partition(other, l, 1), 0, 0)
	all := w.deferAll()
	gone.Drain()
	var live []*Delivery
	for _, d := range all {
		if d.part.asg == other {
			live = append(live, d)
		}
	}
	last := live[len(live)-1]
	w.Resume([]*Delivery{all[0], all[1], all[2], last})
	if d := w.Take(); d != last {
		t.Errorf("got job %v, want the one that was resumed of the assignment that works", d)
	}
	if d := w.Take(); d != nil || w.timers.Len() != len(live)-1 {
		t.Errorf("got job %v and %d timers, want none more, and %d", d, w.timers.Len(), len(live)-1)
	}
}
