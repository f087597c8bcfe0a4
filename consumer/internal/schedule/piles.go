package schedule

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Pile is jobs of this node that wait for the same: for a job of their ordering key that goes first, or for the same value of a limit.
type Pile struct {
	Limit   string   // empty: they have one ordering key
	Value   [16]byte // of the limit, as [ValueOf] said
	Key     []byte   // the ordering key
	Jobs    int
	AtLeast bool // only the oldest jobs of a partition were looked at, so there may be more
}

// ValueOf tells the value of a limit that a job waits for; false: it is not known. It is called with the lock held.
type ValueOf func(d *Delivery, limit string) (value [16]byte, ok bool)

// pile names one.
type pile struct {
	limit string
	value [16]byte
}

// count is how many jobs a pile has, and the key of one of them.
type count struct {
	jobs int
	key  []byte
}

// mostLooked is how many jobs of a partition are looked at, at most.
const mostLooked = 256

// Piles are the largest piles of two jobs and more, so many at most. It looks at so many of the oldest admitted jobs, an equal part of
// each partition and 256 at most: jobs pile up there, since those that wait for nothing leave. The lock is free between two
// partitions.
func (s *Scheduler) Piles(most, look int, value ValueOf) []Pile {
	counts := make(map[pile]count)
	parts := s.partitions()
	each, cut := min(mostLooked, max(1, look/max(1, len(parts)))), false
	for _, p := range parts {
		if p.addPiles(each, value, counts) {
			cut = true
		}
	}
	var all []Pile
	for of, n := range counts {
		switch {
		case n.jobs < 2:
		case of.limit == "":
			all = append(all, Pile{Key: n.key, Jobs: n.jobs, AtLeast: cut})
		default:
			all = append(all, Pile{Limit: of.limit, Value: of.value, Jobs: n.jobs, AtLeast: cut})
		}
	}
	slices.SortFunc(all, func(x, y Pile) int {
		return cmp.Or(cmp.Compare(y.Jobs, x.Jobs), cmp.Compare(x.Limit, y.Limit), slices.Compare(x.Value[:], y.Value[:]), slices.Compare(x.Key, y.Key))
	})
	return all[:min(len(all), most)]
}

// addPiles tells whether the partition has more open jobs than it looked at.
func (p *Partition) addPiles(look int, value ValueOf, counts map[pile]count) (more bool) {
	p.sched.mu.Lock()
	defer p.sched.unlock()
	if p.asg.phase != working {
		return false
	}
	d := p.open.oldest
	for ; d != nil && look > 0; d, look = d.newer, look-1 {
		if of, ok := d.pile(value); ok {
			counts[of] = count{counts[of].jobs + 1, d.Job.Key}
		}
	}
	return d != nil
}

// pile is the one that a job belongs to; false: it waits for no job of its key and no limit.
func (d *Delivery) pile(value ValueOf) (of pile, ok bool) {
	if d.state == asleep && d.limit != "" && !d.held {
		of.limit = d.limit
		of.value, ok = value(d, d.limit)
		return of, ok
	}
	if d.part.sched.opts.Order != OrderKey || !d.inKeyQueue || d.nextOfKey == nil && d.state != waiting {
		return of, false
	}
	binary.LittleEndian.PutUint64(of.value[:], d.key)
	return of, true
}
