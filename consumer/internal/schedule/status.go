package schedule

import (
	"time"

	"dispatcher/consumer/internal/backlog"
)

// LaneStatus is one lane on this node, in order of priority.
type LaneStatus struct {
	Lane     string
	InFlight int   // jobs handed out; not settled, or a worker still has them
	Ready    int   // jobs that only wait for a slot
	Waiting  int64 // records of its topics that are not complete, less those in flight and asleep
	Asleep   int   // jobs that wait in memory for their time
	Behind   int   // jobs that wait in memory behind another job of their key, in partition order of their partition
	Delayed  int64 // records of its retry topics that are not complete, less those in flight and asleep
	// Oldest is how long the oldest job has been waiting or in flight on this node, since
	// it was written or since it was due; 0: none waits.
	Oldest time.Duration
	// Rate is how many jobs a second had their offsets completed, lately.
	Rate float64
}

// Drain is the time in seconds until all that waits or is in flight would be settled at the
// present rate; +Inf where nothing is settled at present.
func (s LaneStatus) Drain() float64 {
	left := float64(s.Waiting) + float64(s.InFlight)
	if left == 0 {
		return 0
	}
	return left / s.Rate
}

// PartitionStatus is one partition that this node works.
type PartitionStatus struct {
	Topic     string
	Lane      string
	Partition int
	Committed int64 // -1: nothing yet
	Lag       int64 // last stable offset less the committed one
	Open      int   // offsets admitted and not complete; what is in the fetch buffer does not count
}

// Status is a snapshot. assignments is how many hand out jobs.
func (s *Scheduler) Status() (lanes []LaneStatus, partitions []PartitionStatus, assignments int) {
	s.mu.Lock()
	defer s.unlock()
	now := time.Now()
	at := make(map[*Lane]*LaneStatus, len(s.opts.Lanes))
	lanes = make([]LaneStatus, len(s.opts.Lanes))
	for i, l := range s.opts.Lanes {
		lanes[i] = LaneStatus{Lane: l.name, InFlight: l.inFlight, Ready: l.ready.Len(), Rate: l.completed.PerSecond(now)}
		at[l] = &lanes[i]
	}
	for a := range s.live {
		if a.phase == working {
			assignments++
		}
		for _, p := range a.parts {
			at[p.src.Lane].add(p, now)
			partitions = append(partitions, PartitionStatus{
				Topic: p.src.Topic, Lane: p.src.Lane.name, Partition: p.id, Committed: p.committed, Lag: p.lag(), Open: p.tracker.Open(),
			})
		}
	}
	return lanes, partitions, assignments
}

// lag counts from the lowest open offset where nothing is committed yet.
func (p *Partition) lag() int64 {
	from := p.committed
	if from < 0 {
		from = p.tracker.Low()
	}
	return max(p.stable-from, 0)
}

// add counts a partition's offsets that are not complete, as far as is known.
func (s *LaneStatus) add(p *Partition, now time.Time) {
	s.Oldest = max(s.Oldest, p.age(now))
	backlog := int64(p.tracker.Open()) + max(p.stable-p.tracker.End(), 0) - int64(p.inFlight+p.asleep.jobs)
	s.Asleep += p.asleep.jobs
	s.Behind += p.behind.jobs
	if p.src.Delay > 0 {
		s.Delayed += backlog
	} else {
		s.Waiting += backlog
	}
}

// Places are the partitions that this node works, by topic.
func (s *Scheduler) Places() map[string]map[int]bool {
	s.mu.Lock()
	defer s.unlock()
	all := make(map[string]map[int]bool)
	for a := range s.live {
		for _, p := range a.parts {
			if all[p.src.Topic] == nil {
				all[p.src.Topic] = make(map[int]bool)
			}
			all[p.src.Topic][p.id] = true
		}
	}
	return all
}

// Backlog is the backlog of each lane, in order of priority, with so many [backlog.Expiring] a lane at most.
func (s *Scheduler) Backlog(most int) []backlog.Lane {
	copies := s.copyBacklogs()
	all := make([]backlog.Lane, len(copies))
	for i, one := range copies {
		all[i] = one.Lane(s.opts.Lanes[i].name, most)
	}
	return all
}

// copyBacklogs is the part that holds the lock.
func (s *Scheduler) copyBacklogs() []backlog.Snapshot {
	s.mu.Lock()
	defer s.unlock()
	copies := make([]backlog.Snapshot, len(s.opts.Lanes))
	for i, l := range s.opts.Lanes {
		copies[i] = l.backlog.Snapshot()
	}
	return copies
}
