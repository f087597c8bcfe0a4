package schedule

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/job"
)

// backlogIsThatOfAWalk compares each lane's backlog with a walk over all jobs.
func backlogIsThatOfAWalk(t *rapid.T, w *bench) {
	t.Helper()
	byLane := make(map[string][]*Delivery)
	for _, p := range w.partitions() {
		p.each(func(d *Delivery) {
			if d.state.queued() && p.src.Delay == 0 {
				byLane[d.Lane()] = append(byLane[d.Lane()], d)
			}
		})
	}
	for _, b := range w.Backlog(mostCells) {
		agrees(t, b, byLane[b.Lane], time.Second)
	}
}

// agrees fails the test unless a backlog has these jobs: each one that expires lies where the backlog says, and its time within
// one tick.
func agrees(t *rapid.T, b LaneBacklog, jobs []*Delivery, tick time.Duration) {
	t.Helper()
	slices.SortFunc(jobs, func(x, y *Delivery) int { return cmp.Compare(x.place, y.place) })
	units, expire, said := 0, 0, 0
	for _, e := range b.Expires {
		said += e.Jobs
	}
	for ahead, d := range jobs {
		units += d.turns()
		if d.Job.NotAfter.IsZero() {
			continue
		}
		expire++
		if !slices.ContainsFunc(b.Expires, func(e Expiring) bool {
			return e.Ahead <= ahead && ahead < e.Ahead+e.Among && e.At.Sub(d.Job.NotAfter).Abs() <= tick/2
		}) {
			t.Fatalf("got no entry for the job at %d that expires at %v, of %+v", ahead, d.Job.NotAfter, b.Expires)
		}
	}
	if b.Jobs != len(jobs) || b.Units != units || said != expire {
		t.Fatalf("got %d jobs of %d units, %d of which expire; want %d, %d and %d", b.Jobs, b.Units, said, len(jobs), units, expire)
	}
}

// However many jobs there are, and whenever they expire, a backlog stays small and counts each of them where it is.
func TestABacklogStaysSmallAndCountsEachJob(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := NewLane("default", 1)
		w := newBench(l)
		p := partition(w.NewAssignment(), l, 0)
		var jobs []*Delivery
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			spread := rapid.IntRange(1, 100_000).Draw(t, "seconds")
			seed := rapid.IntRange(1, 1<<20).Draw(t, "seed")
			for i := range rapid.SampledFrom([]int{1, 100, 3000}).Draw(t, "come") {
				d := &Delivery{part: p, Job: job.Job{Cost: i % 3}}
				if i%5 > 0 {
					d.Job.NotAfter = farAway.Add(time.Duration(seed*(i+1)%spread) * time.Second)
				}
				d.comes()
				jobs = append(jobs, d)
			}
			from := rapid.IntRange(0, len(jobs)).Draw(t, "from")
			to := rapid.IntRange(from, len(jobs)).Draw(t, "to")
			for _, d := range jobs[from:to] {
				d.goes()
			}
			again := rapid.IntRange(from, to).Draw(t, "come again")
			for _, d := range jobs[again:to] {
				d.count(1)
			}
			jobs = slices.Delete(jobs, from, again)
		}
		most := rapid.SampledFrom([]int{1, 64, mostCells}).Draw(t, "most")
		b, got := &l.backlog, w.Backlog(most)[0]
		if len(b.late) > mostCells || len(b.blocks) > mostBlocks || len(got.Expires) > most {
			t.Fatalf("got %d cells, %d blocks and %d entries, want at most %d, %d and %d", len(b.late), len(b.blocks), len(got.Expires), mostCells, mostBlocks, most)
		}
		shown := *b
		shown.late = merged(b.late, 0, 0)
		shown.fit(most)
		agrees(t, got, slices.Clone(jobs), time.Second<<shown.tick)
		for _, d := range jobs {
			d.goes()
		}
		if b.jobs != 0 || b.units != 0 || len(b.late) != 0 || len(b.blocks) != 0 {
			t.Fatalf("got %+v after all jobs have gone, want nothing", *b)
		}
	})
}

func TestJobsOfRetryTopicsHaveNoTurnToWaitFor(t *testing.T) {
	t.Parallel()
	l := NewLane("default", 1)
	w := newBench(l)
	a := w.NewAssignment()
	p := a.NewPartition(&Source{Topic: "jobs.retry.1m", JobTopic: "jobs", Lane: l, Delay: time.Minute}, PartitionOptions{})
	d := &Delivery{part: p}
	d.comes()
	if got := w.Backlog(1)[0]; got.Jobs != 0 {
		t.Errorf("got %+v, want none", got)
	}
}

// What a job costs, and what a snapshot of a full backlog costs: in all, and while the lock is held.
func BenchmarkBacklog(b *testing.B) {
	full := func() (*Partition, *bench) {
		l := NewLane("default", 1)
		w := newBench(l)
		p := partition(w.NewAssignment(), l, 0)
		for i := range 200_000 {
			d := &Delivery{part: p, Job: job.Job{NotAfter: farAway.Add(time.Duration(i*7919%86400) * time.Second)}}
			d.comes()
		}
		return p, w
	}
	b.Run("job", func(b *testing.B) {
		p, _ := full()
		b.ReportAllocs()
		for b.Loop() {
			d := Delivery{part: p, Job: job.Job{NotAfter: farAway}}
			d.comes()
			d.goes()
		}
	})
	b.Run("job without not-after", func(b *testing.B) {
		p, _ := full()
		b.ReportAllocs()
		for b.Loop() {
			d := Delivery{part: p}
			d.comes()
			d.goes()
		}
	})
	b.Run("snapshot", func(b *testing.B) {
		_, w := full()
		for b.Loop() {
			w.Backlog(64)
		}
	})
	b.Run("snapshot, locked", func(b *testing.B) {
		_, w := full()
		for b.Loop() {
			w.copyBacklogs()
		}
	})
}
