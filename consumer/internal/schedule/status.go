package schedule

import (
	"time"

	"dispatcher/consumer/internal/backlog"
	"dispatcher/consumer/internal/order"
	"dispatcher/consumer/internal/states"
	"dispatcher/consumer/internal/status"
)

// Status is a snapshot. assignments is how many hand out jobs.
func (s *Scheduler) Status() (lanes []status.Lane, partitions []status.Partition, assignments int) {
	s.mu.Lock()
	defer s.unlock()
	now := time.Now()
	at := make(map[*Lane]*status.Lane, len(s.opts.Lanes))
	lanes = make([]status.Lane, len(s.opts.Lanes))
	for i, l := range s.opts.Lanes {
		lanes[i] = status.Lane{Lane: l.name, InFlight: l.inFlight, Ready: l.ready.Len(), Rate: l.completed.PerSecond(now)}
		at[l] = &lanes[i]
	}
	for a := range s.live {
		if a.phase == working {
			assignments++
		}
		for _, p := range a.parts {
			p.addTo(at[p.src.Lane], now)
			partitions = append(partitions, status.Partition{
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

// addTo counts the partition's offsets that are not complete, as far as is known.
func (p *Partition) addTo(l *status.Lane, now time.Time) {
	l.Oldest = max(l.Oldest, p.age(now))
	left := int64(p.tracker.Open()) + max(p.stable-p.tracker.End(), 0) - int64(p.inFlight-p.abandoned+p.asleep.Items)
	l.Asleep += p.asleep.Items
	l.Behind += p.keyQueues.Waiting().Items
	if p.src.Delay > 0 {
		l.Delayed += left
	} else {
		l.Waiting += left
	}
}

// age is how long the partition's oldest job has been waiting or in flight; 0: no job is
// known to.
func (p *Partition) age(now time.Time) time.Duration {
	d := p.open.Oldest()
	if d == nil && !p.headWaits {
		d = p.buffer.Head()
	}
	if d == nil || d.Job.Time.IsZero() {
		return 0
	}
	since := d.Job.Time
	if due := d.due(); due.After(since) {
		since = due
	}
	return max(now.Sub(since), 0)
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

// ValueOf tells the value of a limit that a job waits for; false: it is not known. It is called with the lock held.
type ValueOf func(d *Delivery, limit string) (value [16]byte, ok bool)

// mostLooked is how many jobs of a partition are looked at, at most.
const mostLooked = 256

// Piles are the largest piles of two jobs and more, so many at most. It looks at so many of the oldest admitted jobs, an equal part of
// each partition and 256 at most: jobs pile up there, since those that wait for nothing leave. The lock is free between two
// partitions.
func (s *Scheduler) Piles(most, look int, value ValueOf) []status.Pile {
	var piles status.Piles
	parts := s.partitions()
	each, cut := min(mostLooked, max(1, look/max(1, len(parts)))), false
	for _, p := range parts {
		if p.addPiles(each, value, &piles) {
			cut = true
		}
	}
	return piles.Largest(most, cut)
}

// addPiles tells whether the partition has more open jobs than it looked at.
func (p *Partition) addPiles(look int, value ValueOf, piles *status.Piles) (more bool) {
	p.sched.mu.Lock()
	defer p.sched.unlock()
	if p.asg.phase != working {
		return false
	}
	d := p.open.Oldest()
	for ; d != nil && look > 0; d, look = d.newer, look-1 {
		d.addTo(piles, value)
	}
	return d != nil
}

// addTo counts a job that waits for a limit or in its key queue, and one for which others of its key wait.
func (d *Delivery) addTo(piles *status.Piles, value ValueOf) {
	switch {
	case d.state == states.Asleep && d.wait.limit != "" && !d.wait.held:
		if v, ok := value(d, d.wait.limit); ok {
			piles.AddToValue(d.wait.limit, v)
		}
	case d.part.sched.keys.Order() == order.Key && d.keyQueue.Joined() && (d.keyQueue.Behind() != nil || d.state == states.Waiting):
		piles.AddToKey(d.keyQueue.Key(), d.Job.Key)
	}
}
