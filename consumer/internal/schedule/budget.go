package schedule

// minShareBytes of a node's bytes are each partition's, however many there are.
const minShareBytes = 16 << 10

// Roomy takes the partitions of an assignment that have room again.
func (s *Scheduler) Roomy(a *Assignment) []*Partition {
	s.mu.Lock()
	defer s.mu.Unlock()
	some := a.roomy
	a.roomy = nil
	return some
}

// OverBudget tells whether the node's partitions hold all bytes that they may. Then it
// marks those of an assignment that hold their share; see [Partition.OverShare].
func (s *Scheduler) OverBudget(a *Assignment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, parts := 0, 0
	for live := range s.live {
		for _, p := range live.parts {
			all += p.held()
		}
		parts += len(live.parts)
	}
	over := all >= s.opts.BufferBytes
	share := max(s.opts.BufferBytes/max(parts, 1), minShareBytes)
	for _, p := range a.parts {
		p.overShare = over && p.held() >= share
	}
	return over
}
