package schedule

import (
	"dispatcher/consumer/internal/lifetime"
	"dispatcher/consumer/internal/offsets"
)

// phase is where an assignment is in its life. It never goes back.
type phase uint8

const (
	working  phase = iota // jobs are handed out
	draining              // none is; those in flight and records that are being written are awaited
	closed                // no offset is completed any more
)

// Assignment is what one generation of a group gave this node of one topic. Offsets are
// completed and committed for an assignment, and no more once it is closed. Its methods may
// be called from any goroutine.
type Assignment struct {
	*lifetime.Lifetime

	sched *Scheduler

	idle        chan struct{} // closed when it drains and no job is awaited
	hasDiverted chan struct{} // diverted is not empty; room for one
	news        chan struct{} // there is news for the fetcher; room for one, since a second notice says nothing new

	// Guarded by the scheduler's lock.
	phase    phase
	parts    []*Partition // those that are being worked
	roomy    []*Partition // those that have room again, until the fetcher takes them
	diverted []*Delivery  // until the settler takes them
	awaited  int          // by the drain: jobs in flight, and diverted jobs that are not written
}

// NewAssignment makes an assignment without partitions.
func (s *Scheduler) NewAssignment() *Assignment {
	return &Assignment{
		Lifetime: lifetime.New(), sched: s, idle: make(chan struct{}), hasDiverted: make(chan struct{}, 1), news: make(chan struct{}, 1),
	}
}

// Idle is closed when the assignment drains and awaits none of its jobs.
func (a *Assignment) Idle() <-chan struct{} { return a.idle }

// News tells the fetcher that a partition has room, or that WakeFetcher was called.
func (a *Assignment) News() <-chan struct{} { return a.news }

// WakeFetcher sends such news.
func (a *Assignment) WakeFetcher() { notify(a.news) }

// Open lets partitions take part; false: the assignment is ending.
func (a *Assignment) Open(parts []*Partition) bool {
	a.sched.mu.Lock()
	defer a.sched.unlock()
	if a.phase != working {
		return false
	}
	a.sched.live[a] = struct{}{}
	a.parts = append(a.parts, parts...)
	return true
}

// Drain drops all jobs that were not handed out, ready ones as well. The assignment is idle once
// everything in flight has been settled, and each record that is being written has an
// outcome. A second call has no effect.
func (a *Assignment) Drain() {
	s := a.sched
	s.mu.Lock()
	defer s.unlock()
	if a.phase != working {
		return
	}
	a.phase = draining
	a.awaited -= len(a.diverted)
	for _, d := range a.diverted {
		d.part.diverted.Minus(d.bytes())
	}
	a.diverted = nil
	for _, p := range a.parts {
		p.drop()
	}
	for _, t := range s.timers.Remove(func(t timer) bool { return t.part.asg == a }) {
		if t.d != nil {
			s.wokeUp(t.d)
		}
	}
	for _, l := range s.opts.Lanes {
		l.drop(a)
		s.fill(l) // the room is for others
	}
	if a.awaited == 0 {
		close(a.idle)
	}
}

// leaves notes that one job is not awaited any more.
func (a *Assignment) leaves() {
	if a.awaited--; a.phase != working && a.awaited == 0 {
		close(a.idle)
	}
}

// Close ends an assignment that was drained: no offset is completed after it. It returns the
// last offsets to commit, and how many partitions there were.
func (a *Assignment) Close() (last []CommitPoint, partitions int) {
	a.sched.mu.Lock()
	defer a.sched.unlock()
	a.phase = closed
	delete(a.sched.live, a)
	return a.uncommitted(), len(a.parts)
}

// CommitPoint is what one partition has to commit.
type CommitPoint struct {
	offsets.Snapshot

	ID   int // of the partition
	part *Partition
}

// Uncommitted are the points that Kafka doesn't have yet.
func (a *Assignment) Uncommitted() []CommitPoint {
	a.sched.mu.Lock()
	defer a.sched.unlock()
	return a.uncommitted()
}

func (a *Assignment) uncommitted() []CommitPoint {
	var points []CommitPoint
	for _, p := range a.parts {
		if p.tracker.Rev() != p.committedRev {
			points = append(points, CommitPoint{ID: p.id, part: p, Snapshot: p.tracker.Snapshot()})
		}
	}
	return points
}

// Committed notes the points that Kafka has acknowledged. A point that did not come from
// Uncommitted has no effect.
func (a *Assignment) Committed(points []CommitPoint) {
	a.sched.mu.Lock()
	defer a.sched.unlock()
	for _, c := range points {
		if c.part != nil {
			c.part.committed, c.part.committedRev = c.Low, c.Rev
		}
	}
}

// Pending tells whether Kafka has not acknowledged a point since Uncommitted returned it.
func (a *Assignment) Pending(c *CommitPoint) bool {
	a.sched.mu.Lock()
	defer a.sched.unlock()
	return c.part.committedRev != c.Rev
}
