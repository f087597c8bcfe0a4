package fetch

import (
	"log/slog"
	"testing"
	"time"

	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/schedule"
)

// The scheduler may notify the fetcher of new room before the fetcher has the answer that
// filled the partition.
func TestRoomThatComesEarlyIsNotForgotten(t *testing.T) {
	t.Parallel()
	lane := schedule.NewLane("jobs", 1)
	sched := schedule.New(schedule.Options{Lanes: []*schedule.Lane{lane}, BufferBytes: 1 << 20, MaxAsleep: 1, MaxAsleepBytes: 1 << 20, Log: slog.New(slog.DiscardHandler)})
	src := &schedule.Source{Topic: "jobs", JobTopic: "jobs", Lane: lane}
	a := sched.NewAssignment()
	f := New(Options{Assignment: a, Source: src})
	p := a.NewPartition(src, schedule.PartitionOptions{Tracker: offsets.NewTracker(0)})
	a.Open([]*schedule.Partition{p})
	f.Add(p)
	f.collect(time.Now())
	r := f.order[0]
	for _, early := range []bool{false, true} {
		r.busy, r.full, r.roomy = true, false, false // in a request
		if early {
			fill(sched, p)
			f.collect(time.Now())
		}
		f.note(answer{outcomes: []outcome{{r: r, full: true}}}, time.Now())
		if r.full == early {
			t.Errorf("room came early: %v; got full %v, want %v", early, r.full, !early)
		}
	}
}

// fill takes the room of a partition, and gives it back.
func fill(s *schedule.Scheduler, p *schedule.Partition) {
	b := &schedule.Batch{Jobs: []*schedule.Delivery{{}, {}}, Bytes: 2 << 20, Next: 2, Stable: 2}
	for i, d := range b.Jobs {
		d.Job.Offset = int64(i)
		schedule.Prepare(d, p, schedule.Prepared{Size: 1 << 20})
	}
	p.Add(b)
	schedule.Settle(s.Take())
}
