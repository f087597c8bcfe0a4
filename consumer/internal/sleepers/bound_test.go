package sleepers_test

import (
	"testing"

	"dispatcher/consumer/internal/sleepers"
)

// Partitions that wait may go on when the bound is left, and when half of it is: by the jobs or by their bytes.
func TestRoomIsNoticedAtTheBoundAndAtHalf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bound sleepers.Bound
		bytes int
	}{
		"jobs":  {sleepers.Bound{MaxJobs: 8, MaxBytes: 1 << 20}, 1},
		"bytes": {sleepers.Bound{MaxJobs: 1 << 20, MaxBytes: 80}, 10},
	} {
		for range 9 {
			c.bound.Add(c.bytes)
		}
		if full, changed := c.bound.Changed(); !full || !changed {
			t.Errorf("%s: got full %v and new %v with 9 of 8, want both", name, full, changed)
		}
		if full, changed := c.bound.Changed(); !full || changed {
			t.Errorf("%s: got full %v and new %v when asked again, want it full and not new", name, full, changed)
		}
		for left := 8; left >= 0; left-- {
			want := left == 7 || left == 3
			if got := c.bound.Remove(c.bytes); got != want {
				t.Errorf("%s: got room %v with %d left of 8, want %v", name, got, left, want)
			}
			if got, below := c.bound.Full(), c.bound.BelowHalf(); got != (left == 8) || below != (left < 4) {
				t.Errorf("%s: got full %v and below half %v with %d of 8", name, got, below, left)
			}
		}
		if jobs, bytes := c.bound.Count(); jobs != 0 || bytes != 0 {
			t.Errorf("%s: got %d jobs in %d bytes after all have gone, want none", name, jobs, bytes)
		}
	}
}

// A partition has an equal part of half of the bound for jobs that wait for a limit, and all of it where it is alone.
func TestAPartitionHasAnEqualPartOfHalf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		asleep                      int // on the node, of 10 bytes each
		deferred, bytes, partitions int
		want                        bool
	}{
		{asleep: 20, deferred: 20, bytes: 200, partitions: 1, want: false},
		{asleep: 20, deferred: 9, bytes: 90, partitions: 2, want: false},
		{asleep: 20, deferred: 10, bytes: 100, partitions: 2, want: true},
		{asleep: 20, deferred: 0, bytes: 200, partitions: 2, want: false},
		{asleep: 50, deferred: 1, bytes: 250, partitions: 2, want: true},
		{asleep: 50, deferred: 1, bytes: 240, partitions: 2, want: false},
	} {
		b := sleepers.Bound{MaxJobs: 40, MaxBytes: 1000}
		for range c.asleep {
			b.Add(10)
		}
		if c.asleep < 50 {
			b.MaxBytes = 1 << 20
		}
		if got := b.PartUsed(c.deferred, c.bytes, c.partitions); got != c.want {
			t.Errorf("got %v for %+v, want %v", got, c, c.want)
		}
	}
}
