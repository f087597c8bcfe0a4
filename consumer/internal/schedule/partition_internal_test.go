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

// What partitions may fetch at once follows from their share of the node's budget, and once that is used up from what is left of it.
func TestWhatMayBeFetchedIsAPartOfTheShare(t *testing.T) {
	t.Parallel()
	const budget, share = 8 * minShareBytes, 4 * minShareBytes
	for name, c := range map[string]struct {
		held [2]int // bytes of two partitions
		over bool
		want [2]int
	}{
		"nothing is held":         {[2]int{}, false, [2]int{share / 2, share / 2}},
		"a part of the budget is": {[2]int{budget - 1, 0}, false, [2]int{share / 2, share / 2}},
		"one holds all":           {[2]int{budget, 0}, true, [2]int{0, share / 2}},
		"one lacks some":          {[2]int{budget, share - 2*minShareBytes}, true, [2]int{0, minShareBytes}},
		"one lacks a byte":        {[2]int{budget, share - 1}, true, [2]int{0, minShareBytes / 2}},
		"both hold their share":   {[2]int{share, share}, true, [2]int{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &Lane{name: "default", mostJobs: 1}
			w := newBench(l)
			w.opts.BufferBytes = budget
			a := w.NewAssignment()
			parts := [2]*Partition{partition(a, l, 0), partition(a, l, 1)}
			for i, p := range parts {
				p.asleep.Bytes = c.held[i]
			}
			if over := a.OverBudget(); over != c.over {
				t.Errorf("got that the budget is used up: %v, want %v", over, c.over)
			}
			if got := [2]int{parts[0].MayFetch(), parts[1].MayFetch()}; got != c.want {
				t.Errorf("got %v bytes to fetch, want %v", got, c.want)
			}
		})
	}
}
