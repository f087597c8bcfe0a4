package schedule

import "dispatcher/consumer/internal/offsets"

// CommitPoint is what one partition has to commit.
type CommitPoint struct {
	offsets.Snapshot

	ID   int // of the partition
	part *Partition
}

// Uncommitted are the points that Kafka doesn't have yet.
func (s *Scheduler) Uncommitted(a *Assignment) []CommitPoint {
	s.mu.Lock()
	defer s.mu.Unlock()
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
func (s *Scheduler) Committed(points []CommitPoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range points {
		if c.part != nil {
			c.part.committed, c.part.committedRev = c.Low, c.Rev
		}
	}
}

// StillUncommitted leaves out the points that Kafka has acknowledged meanwhile.
func (s *Scheduler) StillUncommitted(points []CommitPoint) []CommitPoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []CommitPoint
	for _, c := range points {
		if c.part.committedRev != c.Rev {
			left = append(left, c)
		}
	}
	return left
}
