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
			held:   jobBytes + refusedBytes,
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

// Jobs that sleep take no room in their partition, and nothing of the node's budget: the bound on sleepers counts them. In a fair lane
// they take both. Once awake they take of the budget again.
func TestJobsThatSleepLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lane             *Lane
		wake             bool
		room, overBudget bool
	}{
		"asleep":                {lane: NewLane("bulk", 100), room: true},
		"awake again":           {lane: NewLane("bulk", 100), wake: true, room: true, overBudget: true},
		"asleep in a fair lane": {lane: NewFairLane("bulk", 100), overBudget: true},
	} {
		w := newBench(c.lane)
		w.opts.BufferBytes = heldBackBytes
		a := w.NewAssignment()
		p := partition(a, c.lane, 0)
		addPrepared(p, heldBackBytes/bufferBytes+1, Prepared{Size: bufferBytes})
		deferred := w.deferAll()
		if c.wake {
			c.lane.mostJobs = 0 // so that none is made ready
			w.Resume(deferred)
		}
		if room, over := p.room(), a.OverBudget(); room != c.room || over != c.overBudget {
			t.Errorf("%s: got room %v and the budget used up %v, want %v and %v", name, room, over, c.room, c.overBudget)
		}
	}
}

// A job whose record is to be written holds what that takes, however small it is. If it sleeps instead, there is room again, and the
// fetcher hears of it.
func TestDivertedJobsHoldTheirRecords(t *testing.T) {
	t.Parallel()
	l := NewLane("bulk", 1)
	w := newBench(l)
	w.opts.RetryTopics = []time.Duration{10 * time.Second}
	a := w.NewAssignment()
	p := partition(a, l, 0)
	addPrepared(p, heldBackBytes/refusedBytes, Prepared{Size: 1, Due: time.Now().Add(time.Minute)})
	if p.room() {
		t.Fatalf("got room with %d records to write, want none", p.diverted.Items)
	}
	for _, d := range a.Diverted() {
		SleepInstead(d)
	}
	if some := a.Roomy(); len(some) != 1 || !p.room() {
		t.Errorf("got %d partitions with room once the jobs sleep, want 1", len(some))
	}
}

// addPrepared adds n jobs without a key.
func addPrepared(p *Partition, n int, about Prepared) {
	next := p.fetched + int64(n)
	batch := &Batch{Next: next, Stable: next}
	for i := range n {
		d := new(Delivery)
		d.Job.Offset = p.fetched + int64(i)
		Prepare(d, p, about)
		batch.Jobs = append(batch.Jobs, d)
	}
	p.Add(batch)
}
