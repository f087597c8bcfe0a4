package schedule

import (
	"testing"
	"time"
)

// After a drain a partition holds the bytes of the records that are still written, and none
// once they have an outcome. Fewer than none would let other partitions exceed the budget.
func TestAPartitionHoldsNothingAfterADrain(t *testing.T) {
	t.Parallel()
	timeOut := func(w *bench, d *Delivery) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.timeOut(d, time.Now())
	}
	for name, c := range map[string]struct {
		before func(w *bench, a *Assignment, d *Delivery)
		after  func(d *Delivery)
		held   int // bytes between the two
	}{
		"the first of a key is released": {after: func(d *Delivery) { d.Release() }},
		"the first of a key is done":     {after: func(d *Delivery) { d.Done(Outcome{}) }},
		"a job timed out, and its record was not begun": {
			before: func(w *bench, _ *Assignment, d *Delivery) { timeOut(w, d) },
			after:  func(d *Delivery) { d.Release() },
		},
		"a job timed out, and its record is written": {
			before: func(w *bench, a *Assignment, d *Delivery) { timeOut(w, d); a.Diverted() },
			after:  func(d *Delivery) { EndRecord(d, true); d.Release() },
			held:   jobBytes,
		},
		"a job sleeps": {
			before: func(_ *bench, _ *Assignment, d *Delivery) { d.Sleep(SleepOptions{Until: time.Now().Add(time.Hour)}) },
			after:  func(*Delivery) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &Lane{name: "default", mostJobs: 2}
			w := newBench(l)
			a := w.NewAssignment()
			p := partition(a, l, 0)
			addJobs(p, 1, 1, 1, 1, 2, 2, 3)
			d := w.Take()
			if p.held() < 4*jobBytes {
				t.Fatalf("got %d bytes held, want those of the jobs that wait", p.held())
			}
			if c.before != nil {
				c.before(w, a, d)
			}
			a.Drain()
			if got := p.held(); got != c.held {
				t.Errorf("got %d bytes held in the drain, want %d", got, c.held)
			}
			c.after(d)
			if got := p.held(); got != 0 {
				t.Errorf("got %d bytes held after the drain, want none", got)
			}
			if _, closed := <-a.Idle(); closed {
				t.Error("got a job that is still awaited, want none")
			}
		})
	}
}
