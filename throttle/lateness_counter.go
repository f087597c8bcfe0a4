package throttle

import (
	"sync/atomic"
	"time"
)

// latenessCounter counts a node's slots by how late they were when they were
// used, or when they were found to be too late. The counts are running totals; any
// goroutine may count.
type latenessCounter [len(latenessClasses) + 1]atomic.Int64

// count takes in a slot that was used at t, or was found to be late then.
func (c *latenessCounter) count(s Slot, t time.Time) { c[latenessClass(s.lateBy(t))].Add(1) }

// totals are the counts so far.
func (c *latenessCounter) totals() (n lateCounts) {
	for i := range c {
		n[i] = c[i].Load()
	}
	return n
}
