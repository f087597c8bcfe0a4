package schedule

import (
	"testing"
	"time"

	"dispatcher/consumer/internal/status"
)

// found is the stay of the job at an offset of a partition.
func (w *bench) found(t *testing.T, p *Partition, offset int64) status.Stay {
	t.Helper()
	all := w.Find(func(d *Delivery) bool { return d.part == p && d.Job.Offset == offset }, 2)
	if len(all) != 1 {
		t.Fatalf("got %d stays of offset %d, want one", len(all), offset)
	}
	return all[0]
}

// Each thing that a job may wait for is named, with what is known of it.
func TestAJobSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour).Truncate(0)
	for name, c := range map[string]struct {
		prepare func(w *bench, p *Partition) (offset int64)
		want    status.Stay
	}{
		"its lane is full": {func(_ *bench, p *Partition) int64 { addJobs(p, 0, 0, 0); return 2 }, status.Stay{For: status.WaitsForLane}},
		"too many sleep": {func(w *bench, p *Partition) int64 {
			w.sleepers.MaxJobs = 1
			addJobs(p, 0, 0, 0, 0)
			w.Take().Sleep(SleepOptions{Until: later})
			w.Take().Sleep(SleepOptions{Until: later})
			return 3
		}, status.Stay{For: status.WaitsForSleepers}},
		"an older job of its key": {func(w *bench, p *Partition) int64 {
			addJobs(p, 1, 1)
			w.Take().Sleep(SleepOptions{Until: later})
			return 1
		}, status.Stay{For: status.WaitsForOrder}},
		"its next call": {func(w *bench, p *Partition) int64 {
			addJobs(p, 0)
			w.Take().Sleep(SleepOptions{Until: later})
			return 0
		}, status.Stay{For: status.WaitsForRetry, Until: later}},
		"the provider": {func(w *bench, p *Partition) int64 {
			addJobs(p, 0)
			w.Take().Sleep(SleepOptions{Until: later, WakeEarly: true})
			return 0
		}, status.Stay{For: status.WaitsForProvider, Until: later}},
		"a limit": {func(w *bench, p *Partition) int64 {
			addJobs(p, 0)
			w.Defer(w.Take(), DeferOptions{Until: later, Limit: "recipient"})
			return 0
		}, status.Stay{For: status.WaitsForLimit, Until: later, Limit: "recipient"}},
		"a limit that is asked again before it lets the job pass": {func(w *bench, p *Partition) int64 {
			addJobs(p, 0)
			w.Defer(w.Take(), DeferOptions{Until: later.Add(-time.Minute), Passes: later, Limit: "recipient"})
			return 0
		}, status.Stay{For: status.WaitsForLimit, Until: later, Limit: "recipient"}},
		"a rule": {func(w *bench, p *Partition) int64 {
			addJobs(p, 0)
			w.Defer(w.Take(), DeferOptions{Until: later, Limit: "rule 1", Held: true})
			return 0
		}, status.Stay{For: status.WaitsForHold, Until: later, Limit: "rule 1"}},
		"its time": {func(w *bench, p *Partition) int64 {
			due := Batch{Jobs: []*Delivery{{}}, Next: 1, Stable: 1}
			Prepare(due.Jobs[0], p, Prepared{Size: jobBytes, Due: later})
			w.opts.RetryTopics = []time.Duration{2 * time.Hour}
			p.Add(&due)
			return 0
		}, status.Stay{For: status.WaitsForTime, Until: later}},
		"a turn": {func(_ *bench, p *Partition) int64 { addJobs(p, 0, 0); return 1 }, status.Stay{For: status.WaitsForTurn, Ahead: 1}},
		"its call": {func(w *bench, p *Partition) int64 {
			addJobs(p, 0)
			w.Take().SetSlot(later)
			return 0
		}, status.Stay{For: status.WaitsForCall, Slot: later}},
		"a record": {func(w *bench, p *Partition) int64 {
			addJobs(p, 0)
			BeginRecord(w.Take())
			return 0
		}, status.Stay{For: status.WaitsForRecord}},
		"the record of one that timed out": {func(w *bench, p *Partition) int64 {
			addJobs(p, 0)
			d := w.Take()
			w.mu.Lock()
			defer w.unlock()
			w.timeOut(d, time.Now())
			return 0
		}, status.Stay{For: status.WaitsForRecord}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := NewLane("default", 2)
			w := newBench(l)
			p := partition(w.NewAssignment(), l, 0)
			got := w.found(t, p, c.prepare(w, p))
			if got.For != c.want.For || !got.Until.Equal(c.want.Until) || got.Limit != c.want.Limit || got.Ahead != c.want.Ahead || !got.Slot.Equal(c.want.Slot) || got.Lane != "default" {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if c.want.For == status.WaitsForOrder && (got.Behind == nil || got.Behind.Offset != 0 || got.Behind.For != status.WaitsForRetry) {
				t.Errorf("got %+v before it, want the first one, which waits for its next call", got.Behind)
			}
		})
	}
}

// A job behind many of its key names the first of them.
func TestAJobNamesTheFirstOfItsKey(t *testing.T) {
	t.Parallel()
	l := NewLane("default", 10)
	w := newBench(l)
	p := partition(w.NewAssignment(), l, 0)
	addJobs(p, 1, 2, 1, 1, 1)
	if got := w.found(t, p, 4); got.Behind == nil || got.Behind.Offset != 0 || got.Behind.For != status.WaitsForTurn {
		t.Errorf("got %+v behind %+v, want it behind offset 0, which is ready", got, got.Behind)
	}
}

// How far a partition has come tells a settled job from one that was not fetched.
func TestThePlaceOfAJobTellsWhetherItIsSettled(t *testing.T) {
	t.Parallel()
	l := NewLane("default", 10)
	w := newBench(l)
	a := w.NewAssignment()
	p := partition(a, l, 3)
	addJobs(p, 0, 0, 0)
	first := w.Take()
	w.Take().Done(Outcome{})
	for offset, settled := range map[int64]bool{0: false, 1: true, 2: false, 3: false, 1 << 40: false} {
		got, ok := w.ProgressOf(status.Place{Topic: "default", Partition: 3, Offset: offset})
		if !ok || got.Settled != settled || got.Fetched != 3 || got.End != 3 {
			t.Errorf("offset %d: got %+v, %v, want it settled: %v", offset, got, ok, settled)
		}
	}
	first.Done(Outcome{})
	if got, _ := w.ProgressOf(status.Place{Topic: "default", Partition: 3, Offset: 0}); !got.Settled {
		t.Error("got the job at the committed offset as not settled")
	}
	for _, other := range []status.Place{{Topic: "default", Partition: 4}, {Topic: "jobs", Partition: 3}} {
		if _, ok := w.ProgressOf(other); ok {
			t.Errorf("got an answer for %+v, which the node does not work", other)
		}
	}
	a.Drain()
	if _, ok := w.ProgressOf(status.Place{Topic: "default", Partition: 3, Offset: 0}); ok || len(w.Find(func(*Delivery) bool { return true }, 9)) > 0 {
		t.Error("got jobs of a partition that was taken away")
	}
}

// A search finds no more jobs than it was asked for.
func TestASearchIsBounded(t *testing.T) {
	t.Parallel()
	l := NewLane("default", 10)
	w := newBench(l)
	a := w.NewAssignment()
	for id := range 3 {
		addJobs(partition(a, l, id), 0, 0, 0)
	}
	if n := len(w.Find(func(*Delivery) bool { return true }, 4)); n != 4 {
		t.Errorf("got %d jobs, want 4 of 9", n)
	}
}

// What a search costs while the lock is held: a partition with all offsets of its window open.
func BenchmarkFind(b *testing.B) {
	l := NewLane("default", 1<<20)
	w := newBench(l)
	p := partition(w.NewAssignment(), l, 0)
	addJobs(p, make([]byte, 8192)...)
	for b.Loop() {
		w.Find(func(d *Delivery) bool { return d.Job.ID == "none" }, 1)
	}
}
