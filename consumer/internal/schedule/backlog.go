package schedule

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// A backlog keeps at most this many blocks and cells; each step that makes them coarser halves one of them.
const (
	mostBlocks = 1024
	mostCells  = 2048
	leastBlock = 6 // a block of 64 places, as a power of two
)

// backlog counts the jobs of a lane that were fetched and wait for their turn, in the order in which they came, and those of
// them that expire. It costs a step a job, and its size does not grow with the jobs: where there are many, it counts in larger
// blocks and longer ticks until none waits any more. The scheduler's lock guards it.
type backlog struct {
	came   int64 // places given so far
	jobs   int
	units  int // that they count, as their headers say
	block  int // a block has so many places, as a power of two
	tick   int // a tick has so many seconds, likewise
	first  int64
	blocks []int // jobs of each block, from first on
	late   map[cell]int
	longer bool // the ticks were made longer last
}

// cell is a block and a tick of the Unix time.
type cell struct{ block, tick int64 }

// queued tells whether a job in this state waits for its turn.
func (s state) queued() bool { return s == fetched || s == waiting || s == ready }

// comes gives a job that was fetched the next place of its lane, and counts it. Jobs of retry topics have no place: they wait
// for their time.
func (d *Delivery) comes() {
	b := &d.part.src.Lane.backlog
	d.place = b.came
	b.came++
	d.count(1)
}

// count counts a job that waits for its turn from now on, or with -1 no more.
func (d *Delivery) count(n int) {
	if d.part.src.Delay > 0 {
		return
	}
	b := &d.part.src.Lane.backlog
	if b.jobs == 0 {
		b.reset()
	}
	b.jobs += n
	b.units += n * d.turns()
	at := b.blockOf(d.place)
	for int(at-b.first) >= mostBlocks {
		b.widen()
		at = b.blockOf(d.place)
	}
	for int(at-b.first) >= len(b.blocks) {
		b.blocks = append(b.blocks, 0)
	}
	b.blocks[at-b.first] += n
	if late := d.Job.NotAfter; !late.IsZero() {
		b.expires(cell{at, late.Unix() >> b.tick}, n)
	}
	for len(b.blocks) > 0 && b.blocks[0] == 0 {
		b.blocks, b.first = b.blocks[1:], b.first+1
	}
}

// goes counts a job no more that is dropped.
func (d *Delivery) goes() {
	if d.state.queued() {
		d.count(-1)
	}
}

func (b *backlog) reset() {
	b.block, b.tick, b.longer = leastBlock, 0, false
	b.first, b.blocks = b.came>>leastBlock, b.blocks[:0]
}

// blockOf is the block of a place. A job that comes again when all of its block have gone is in the first one.
func (b *backlog) blockOf(place int64) int64 { return max(place>>b.block, b.first) }

func (b *backlog) expires(c cell, n int) {
	if b.late == nil {
		b.late = make(map[cell]int)
	}
	if b.late[c] += n; b.late[c] == 0 {
		delete(b.late, c)
	}
	b.fit(mostCells)
}

// fit makes ticks and blocks larger in turn, until the cells are few enough.
func (b *backlog) fit(most int) {
	for len(b.late) > most {
		if b.longer = !b.longer; b.longer {
			b.tick++
			b.late = merged(b.late, 0, 1)
		} else {
			b.widen()
		}
	}
}

// widen makes blocks of twice as many places.
func (b *backlog) widen() {
	first := b.first >> 1
	var blocks []int
	for i, n := range b.blocks {
		at := int((b.first+int64(i))>>1 - first)
		if at == len(blocks) {
			blocks = append(blocks, 0)
		}
		blocks[at] += n
	}
	b.block++
	b.first, b.blocks, b.late = first, blocks, merged(b.late, 1, 0)
}

// merged are cells of larger blocks and longer ticks, as powers of two.
func merged(late map[cell]int, block, tick int) map[cell]int {
	all := make(map[cell]int, len(late))
	for c, n := range late {
		all[cell{c.block >> block, c.tick >> tick}] += n
	}
	return all
}

// LaneBacklog is the jobs of a lane that this node has fetched and that wait for their turn: not those in flight, asleep or in
// retry topics.
type LaneBacklog struct {
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

// Backlog is the backlog of each lane, in order of priority. A lane has so many [Expiring] at most: where it would have more, each
// one covers more jobs and a longer time.
func (s *Scheduler) Backlog(most int) []LaneBacklog {
	copies := s.copyBacklogs()
	all := make([]LaneBacklog, len(copies))
	for i := range copies {
		b := &copies[i]
		all[i] = LaneBacklog{Lane: s.opts.Lanes[i].name, Jobs: b.jobs, Units: b.units, Expires: b.expiring(most)}
	}
	return all
}

// copyBacklogs is the part that holds the lock.
func (s *Scheduler) copyBacklogs() []backlog {
	s.mu.Lock()
	defer s.unlock()
	copies := make([]backlog, len(s.opts.Lanes))
	for i, l := range s.opts.Lanes {
		copies[i] = l.backlog
		copies[i].blocks, copies[i].late = slices.Clone(l.backlog.blocks), maps.Clone(l.backlog.late)
	}
	return copies
}

// expiring lists the cells, after making them coarser until they are few enough.
func (b *backlog) expiring(most int) []Expiring {
	b.fit(max(1, most))
	cells := make([]cell, 0, len(b.late))
	for c := range b.late {
		cells = append(cells, c)
	}
	slices.SortFunc(cells, func(x, y cell) int { return cmp.Or(cmp.Compare(x.block, y.block), cmp.Compare(x.tick, y.tick)) })
	list := make([]Expiring, 0, len(cells))
	ahead, next := 0, 0 // jobs before the block of this place
	half := time.Second << b.tick / 2
	for _, c := range cells {
		at := int(c.block - b.first)
		for ; next < at; next++ {
			ahead += b.blocks[next]
		}
		list = append(list, Expiring{Ahead: ahead, Among: b.blocks[at], Jobs: b.late[c], At: time.Unix(c.tick<<b.tick, 0).Add(half)})
	}
	return list
}
