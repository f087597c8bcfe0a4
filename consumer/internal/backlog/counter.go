package backlog

import "time"

// A counter keeps at most this many blocks and cells; each step that makes them coarser halves one of them.
const (
	mostBlocks = 1024
	mostCells  = 2048
	leastBlock = 6 // a block of 64 places, as a power of two
)

// Counter counts the jobs of a lane that wait for their turn. The zero value has none.
type Counter struct {
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

// Job is what is counted of a job.
type Job struct {
	Place    int64 // in the lane, that [Counter.Next] gave it
	Units    int
	NotAfter time.Time // when it expires; zero: never
}

// Next gives a job that comes the next place.
func (c *Counter) Next() int64 {
	c.came++
	return c.came - 1
}

// Count counts a job that waits for its turn from now on, or with -1 no more.
func (c *Counter) Count(j Job, n int) {
	if c.jobs == 0 {
		c.reset()
	}
	c.jobs += n
	c.units += n * j.Units
	at := c.blockOf(j.Place)
	for int(at-c.first) >= mostBlocks {
		c.widen()
		at = c.blockOf(j.Place)
	}
	for int(at-c.first) >= len(c.blocks) {
		c.blocks = append(c.blocks, 0)
	}
	c.blocks[at-c.first] += n
	if !j.NotAfter.IsZero() {
		c.expires(cell{at, j.NotAfter.Unix() >> c.tick}, n)
	}
	for len(c.blocks) > 0 && c.blocks[0] == 0 {
		c.blocks, c.first = c.blocks[1:], c.first+1
	}
}

func (c *Counter) reset() {
	c.block, c.tick, c.longer = leastBlock, 0, false
	c.first, c.blocks = c.came>>leastBlock, c.blocks[:0]
}

// blockOf is the block of a place. A job that comes again when all of its block have gone is in the first one.
func (c *Counter) blockOf(place int64) int64 { return max(place>>c.block, c.first) }

func (c *Counter) expires(at cell, n int) {
	if c.late == nil {
		c.late = make(map[cell]int)
	}
	if c.late[at] += n; c.late[at] == 0 {
		delete(c.late, at)
	}
	c.fit(mostCells)
}

// fit makes ticks and blocks larger in turn, until the cells are few enough.
func (c *Counter) fit(most int) {
	for len(c.late) > most {
		if c.longer = !c.longer; c.longer {
			c.tick++
			c.late = merged(c.late, 0, 1)
		} else {
			c.widen()
		}
	}
}

// widen makes blocks of twice as many places.
func (c *Counter) widen() {
	first := c.first >> 1
	var blocks []int
	for i, n := range c.blocks {
		at := int((c.first+int64(i))>>1 - first)
		if at == len(blocks) {
			blocks = append(blocks, 0)
		}
		blocks[at] += n
	}
	c.block++
	c.first, c.blocks, c.late = first, blocks, merged(c.late, 1, 0)
}

// merged are cells of larger blocks and longer ticks, as powers of two.
func merged(late map[cell]int, block, tick int) map[cell]int {
	all := make(map[cell]int, len(late))
	for c, n := range late {
		all[cell{c.block >> block, c.tick >> tick}] += n
	}
	return all
}
