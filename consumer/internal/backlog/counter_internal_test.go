package backlog

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// farAway is about when jobs expire.
var farAway = time.Now().Add(1000 * time.Hour).Truncate(time.Second)

// agrees fails the test unless a lane has these jobs, in the order of their places: each one that expires lies where the lane says,
// and its time within one tick.
func agrees(t *rapid.T, l Lane, jobs []Job, tick time.Duration) {
	t.Helper()
	units, expire, said := 0, 0, 0
	for _, e := range l.Expires {
		said += e.Jobs
	}
	for ahead, j := range jobs {
		units += j.Units
		if j.NotAfter.IsZero() {
			continue
		}
		expire++
		if !slices.ContainsFunc(l.Expires, func(e Expiring) bool {
			return e.Ahead <= ahead && ahead < e.Ahead+e.Among && e.At.Sub(j.NotAfter).Abs() <= tick/2
		}) {
			t.Fatalf("got no entry for the job at %d that expires at %v, of %+v", ahead, j.NotAfter, l.Expires)
		}
	}
	if l.Jobs != len(jobs) || l.Units != units || said != expire {
		t.Fatalf("got %d jobs of %d units, %d of which expire; want %d, %d and %d", l.Jobs, l.Units, said, len(jobs), units, expire)
	}
}

// However many jobs there are, and whenever they expire, a backlog stays small and counts each of them where it is.
func TestABacklogStaysSmallAndCountsEachJob(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c Counter
		var jobs []Job
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			spread := rapid.IntRange(1, 100_000).Draw(t, "seconds")
			seed := rapid.IntRange(1, 1<<20).Draw(t, "seed")
			for i := range rapid.SampledFrom([]int{1, 100, 3000}).Draw(t, "come") {
				j := Job{Place: c.Next(), Units: max(1, i%3)}
				if i%5 > 0 {
					j.NotAfter = farAway.Add(time.Duration(seed*(i+1)%spread) * time.Second)
				}
				c.Count(j, 1)
				jobs = append(jobs, j)
			}
			from := rapid.IntRange(0, len(jobs)).Draw(t, "from")
			to := rapid.IntRange(from, len(jobs)).Draw(t, "to")
			for _, j := range jobs[from:to] {
				c.Count(j, -1)
			}
			again := rapid.IntRange(from, to).Draw(t, "come again")
			for _, j := range jobs[again:to] {
				c.Count(j, 1)
			}
			jobs = slices.Delete(jobs, from, again)
		}
		most := rapid.SampledFrom([]int{1, 64, mostCells}).Draw(t, "most")
		got := c.Snapshot().Lane("default", most)
		if len(c.late) > mostCells || len(c.blocks) > mostBlocks || len(got.Expires) > most {
			t.Fatalf("got %d cells, %d blocks and %d entries, want at most %d, %d and %d", len(c.late), len(c.blocks), len(got.Expires), mostCells, mostBlocks, most)
		}
		shown := c
		shown.fit(most)
		agrees(t, got, jobs, time.Second<<shown.tick)
		for _, j := range jobs {
			c.Count(j, -1)
		}
		if c.jobs != 0 || c.units != 0 || len(c.late) != 0 || len(c.blocks) != 0 {
			t.Fatalf("got %+v after all jobs have gone, want nothing", c)
		}
	})
}

// What a job costs, and what a snapshot of a full backlog costs: in all, and while the lock is held.
func BenchmarkBacklog(b *testing.B) {
	full := func() *Counter {
		c := new(Counter)
		for i := range 200_000 {
			c.Count(Job{Place: c.Next(), Units: 1, NotAfter: farAway.Add(time.Duration(i*7919%86400) * time.Second)}, 1)
		}
		return c
	}
	for name, notAfter := range map[string]time.Time{"job": farAway, "job without not-after": {}} {
		b.Run(name, func(b *testing.B) {
			c := full()
			b.ReportAllocs()
			for b.Loop() {
				j := Job{Place: c.Next(), Units: 1, NotAfter: notAfter}
				c.Count(j, 1)
				c.Count(j, -1)
			}
		})
	}
	b.Run("snapshot", func(b *testing.B) {
		c := full()
		for b.Loop() {
			c.Snapshot().Lane("default", 64)
		}
	})
	b.Run("snapshot, locked", func(b *testing.B) {
		c := full()
		for b.Loop() {
			c.Snapshot()
		}
	})
}
