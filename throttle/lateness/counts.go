package lateness

import (
	"sync/atomic"
	"time"

	"dispatcher/throttle/limit"
)

// Counts counts slots by the first class in which they are in time. The last
// element counts those that are later than every class.
type Counts [len(limit.LatenessClasses) + 1]int64

// Add adds other counts.
func (c *Counts) Add(other Counts) {
	for i := range c {
		c[i] += other[i]
	}
}

// sum adds several counts up.
func sum(counts []Counts) (all Counts) {
	for _, c := range counts {
		all.Add(c)
	}
	return all
}

// Minus are the counts without others.
func (c Counts) Minus(other Counts) Counts {
	for i := range c {
		c[i] -= other[i]
	}
	return c
}

// Total is the number of slots.
func (c Counts) Total() (n int64) {
	for _, v := range c {
		n += v
	}
	return n
}

// inTime is the share of the slots, from 0 to 1, that are in time with a
// lateness. Without slots it is 1. A lateness between two classes counts as the
// lower one.
func (c Counts) inTime(lateness time.Duration) float64 {
	total := c.Total()
	if total == 0 {
		return 1
	}
	var n int64
	for i, class := range limit.LatenessClasses {
		if i == 0 || class <= lateness {
			n += c[i]
		}
	}
	return float64(n) / float64(total)
}

// Counter counts a node's slots by how late they were when they were used, or when
// they were found to be too late. The counts are running totals; any goroutine may
// count.
type Counter [len(limit.LatenessClasses) + 1]atomic.Int64

// Count adds a slot that was late by d.
func (c *Counter) Count(d time.Duration) { c[limit.LatenessClass(d)].Add(1) }

// Totals are the counts so far.
func (c *Counter) Totals() (n Counts) {
	for i := range c {
		n[i] = c[i].Load()
	}
	return n
}
