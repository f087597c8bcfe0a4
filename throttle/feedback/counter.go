package feedback

import (
	"sync"
	"sync/atomic"
	"time"

	"dispatcher/throttle/limit"
)

// Counter counts the calls of a node under one slowdown. Any goroutine may count. Units are
// those that a job counts on the limit. The zero value counts refused calls alone.
type Counter struct {
	watching atomic.Bool // there is a slowdown
	news     atomic.Bool // something was counted since the last report

	mu     sync.Mutex
	since  int64     // calls with slots before do not count
	last   time.Time // the last call, or when counting began
	counts Counts
}

// Follow counts under this slowdown from now on. Its calls begin at from on this node's clock.
func (c *Counter) Follow(s limit.Slowdown, from time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts.Number == s.Number {
		return
	}
	c.since, c.last = s.Since, from
	c.counts = Counts{Number: s.Number}
	c.watching.Store(s.Number != 0)
}

// mostGap: a longer gap between two calls of a node counts as this. The node was idle, which
// says nothing about the rate that the provider accepts.
const mostGap = time.Second

// Made counts a call that begins now, at a slot, in µs on Redis's clock.
func (c *Counter) Made(slot, units int64, now time.Time) {
	if !c.watching.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot < c.since {
		return
	}
	c.counts.Calls++
	c.counts.Made += units
	if gap := now.Sub(c.last); gap > 0 {
		c.counts.Span += min(gap, mostGap)
		c.last = now
	}
	c.news.Store(true)
}

// Refused counts a call that the provider refused for its rate. asked: for how long it
// wants no call; 0: it did not say.
func (c *Counter) Refused(slot, units int64, asked time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot < c.since {
		return
	}
	if slot >= c.counts.Number { // else it was made before this slowdown was decided
		c.counts.RefusedCalls++
	}
	c.counts.Refused += units
	c.counts.Asked = max(c.counts.Asked, asked)
	c.news.Store(true)
}

// Counts are what a node has counted under one slowdown so far. They are running totals,
// so a report that comes twice does no harm.
type Counts struct {
	Number       int64 // of the slowdown; 0: there is none yet
	Calls        int64 // that were made under it, with slots from its Since on
	RefusedCalls int64 // of these
	Made         int64 // units of Calls
	Refused      int64 // units of all that were refused since then, also of calls that were made before
	Asked        time.Duration
	Span         time.Duration // in which calls were made
}

// Counts are those so far.
func (c *Counter) Counts() Counts {
	c.news.Store(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}
