package backlog

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Lane is the jobs of a lane that a node has fetched and that wait for their turn: not those in flight, asleep or in retry topics.
type Lane struct {
	Lane    string
	Jobs    int
	Units   int        // that these jobs count, as their headers say
	Expires []Expiring // jobs with a not-after, in the order in which they came
}

// Expiring are jobs that came close to each other and expire close to each other.
type Expiring struct {
	Ahead int       // jobs of the lane that came before all of them, and wait on this node
	Among int       // jobs of the lane that came between the first and the last of them, these included
	Jobs  int       // that expire
	At    time.Time // when about
}

// Snapshot is a copy of a [Counter], to be read without its lock.
type Snapshot struct{ counter Counter }

// Snapshot copies what was counted.
func (c *Counter) Snapshot() Snapshot {
	copied := *c
	copied.blocks, copied.late = slices.Clone(c.blocks), maps.Clone(c.late)
	return Snapshot{copied}
}

// Lane is what was counted in the lane of a name, with so many [Expiring] at most: where it would have more, each one covers more
// jobs and a longer time.
func (s Snapshot) Lane(name string, most int) Lane {
	c := &s.counter
	return Lane{Lane: name, Jobs: c.jobs, Units: c.units, Expires: c.expiring(most)}
}

// expiring lists the cells, after making them coarser until they are few enough.
func (c *Counter) expiring(most int) []Expiring {
	c.fit(max(1, most))
	cells := make([]cell, 0, len(c.late))
	for one := range c.late {
		cells = append(cells, one)
	}
	slices.SortFunc(cells, func(x, y cell) int { return cmp.Or(cmp.Compare(x.block, y.block), cmp.Compare(x.tick, y.tick)) })
	list := make([]Expiring, 0, len(cells))
	ahead, next := 0, 0 // jobs before the block of this place
	half := time.Second << c.tick / 2
	for _, one := range cells {
		at := int(one.block - c.first)
		for ; next < at; next++ {
			ahead += c.blocks[next]
		}
		list = append(list, Expiring{Ahead: ahead, Among: c.blocks[at], Jobs: c.late[one], At: time.Unix(one.tick<<c.tick, 0).Add(half)})
	}
	return list
}
