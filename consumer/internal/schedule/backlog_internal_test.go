package schedule

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/consumer/internal/backlog"
)

// backlogIsThatOfAWalk compares each lane's backlog with a walk over all jobs.
func backlogIsThatOfAWalk(t *rapid.T, w *bench) {
	t.Helper()
	byLane := make(map[string][]*Delivery)
	for _, p := range w.partitions() {
		p.each(func(d *Delivery) {
			if d.state.Queued() && p.src.Delay == 0 {
				byLane[d.Lane()] = append(byLane[d.Lane()], d)
			}
		})
	}
	for _, b := range w.Backlog(1 << 11) {
		agrees(t, b, byLane[b.Lane])
	}
}

// agrees fails the test unless a backlog has these jobs: each one that expires lies where the backlog says, and its time within
// half a second.
func agrees(t *rapid.T, b backlog.Lane, jobs []*Delivery) {
	t.Helper()
	slices.SortFunc(jobs, func(x, y *Delivery) int { return cmp.Compare(x.number, y.number) })
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
		if !slices.ContainsFunc(b.Expires, func(e backlog.Expiring) bool {
			return e.Ahead <= ahead && ahead < e.Ahead+e.Among && e.At.Sub(d.Job.NotAfter).Abs() <= time.Second/2
		}) {
			t.Fatalf("got no entry for the job at %d that expires at %v, of %+v", ahead, d.Job.NotAfter, b.Expires)
		}
	}
	if b.Jobs != len(jobs) || b.Units != units || said != expire {
		t.Fatalf("got %d jobs of %d units, %d of which expire; want %d, %d and %d", b.Jobs, b.Units, said, len(jobs), units, expire)
	}
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
