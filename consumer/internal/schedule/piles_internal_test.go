package schedule

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/consumer/internal/states"
	"dispatcher/consumer/internal/status"
)

// valueOf has all jobs of a key wait for one value.
func valueOf(d *Delivery, _ string) (value [16]byte, ok bool) {
	copy(value[:], d.Job.Key)
	return value, len(d.Job.Key) > 0
}

// pilesAreThoseOfAWalk compares the piles with a walk over all jobs.
func pilesAreThoseOfAWalk(t *rapid.T, w *bench) {
	t.Helper()
	want := make(map[string]int)
	for _, p := range w.partitions() {
		queued := make(map[*Delivery]bool) // behind or before another job of its key
		p.each(func(d *Delivery) {
			if next := d.keyQueue.Behind(); next != nil {
				queued[d], queued[next] = true, true
			}
		})
		p.each(func(d *Delivery) {
			switch {
			case len(d.Job.Key) == 0:
			case d.state == states.Asleep && d.limit() != "":
				want[d.limit()+string(d.Job.Key)]++
			case queued[d] || d.state == states.Waiting && d.keyQueue.Joined():
				want[string(d.Job.Key)]++
			}
		})
	}
	for of, n := range want {
		if n == 1 {
			delete(want, of)
		}
	}
	got := w.Piles(1000, 1000, valueOf)
	for i, one := range got {
		of := one.Limit + string(one.Key)
		if one.Limit != "" {
			of = one.Limit + string(bytes.TrimRight(one.Value[:], "\x00"))
		}
		if one.AtLeast || one.Jobs != want[of] || i > 0 && got[i-1].Jobs < one.Jobs {
			t.Fatalf("got %+v, want %v jobs each, the largest first", got, want)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %v", got, want)
	}
}

// Only the oldest jobs are looked at, and the largest piles returned.
func TestPilesAreBounded(t *testing.T) {
	t.Parallel()
	l := NewLane("default", 1)
	w := newBench(l)
	p := partition(w.NewAssignment(), l, 0)
	w.sleepers.MaxJobs = 1 << 20
	addJobs(p, 1, 1, 1, 2, 2, 3, 4)
	for range 7 { // all are admitted: the lane has room for one at a time, and a job that sleeps frees it
		if d := w.Take(); d != nil {
			d.Sleep(SleepOptions{Until: time.Now().Add(time.Hour)})
		}
	}
	got := w.Piles(1, 1000, valueOf)
	if len(got) != 1 || got[0].Jobs != 3 || got[0].AtLeast || got[0].Key[0] != 1 {
		t.Errorf("got %+v, want the three jobs of key 1", got)
	}
	if got = w.Piles(10, 2, valueOf); len(got) != 1 || got[0].Jobs != 2 || !got[0].AtLeast {
		t.Errorf("got %+v, want two jobs at least of two that were looked at", got)
	}
	if got = w.Piles(10, 1000, valueOf); len(got) != 2 {
		t.Errorf("got %+v, want no pile of one job", got)
	}
}

// What a look at a hundred partitions costs, whose windows are full of jobs behind their keys.
func BenchmarkPiles(b *testing.B) {
	l := NewLane("default", 1)
	w := newBench(l)
	w.sleepers.MaxJobs, w.sleepers.MaxBytes = 1<<20, 1<<30
	a := w.NewAssignment()
	for i := range 100 {
		keys := make([]byte, 4096)
		for k := range keys {
			keys[k] = byte(1 + k%200)
		}
		addJobs(partition(a, l, i), keys...)
	}
	for d := w.Take(); d != nil; d = w.Take() { // all are admitted, in their key queues
		d.Sleep(SleepOptions{Until: time.Now().Add(time.Hour)})
	}
	parts := w.partitions()
	b.Run("a partition, locked", func(b *testing.B) {
		for b.Loop() {
			parts[0].addPiles(256, valueOf, new(status.Piles))
		}
	})
	b.Run("all partitions", func(b *testing.B) {
		for b.Loop() {
			w.Piles(10, 4096, valueOf)
		}
	})
}
