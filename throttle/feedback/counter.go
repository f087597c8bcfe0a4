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

	mu      sync.Mutex
	number  int64     // of the slowdown; 0: there is none
	since   int64     // calls with slots before do not count
	from    time.Time // calls are counted from then on
	made    int64
	refused int64
	asked   time.Duration // the longest time that the provider asked to wait
}

// Follow counts under this slowdown from now on. Its calls begin at from on this node's clock.
func (c *Counter) Follow(s limit.Slowdown, from time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.number == s.Number {
		return
	}
	c.number, c.since, c.from = s.Number, s.Since, from
	c.made, c.refused, c.asked = 0, 0, 0
	c.watching.Store(c.number != 0)
}

// Made counts a call that begins at a slot, in µs on Redis's clock.
func (c *Counter) Made(slot, units int64) {
	if !c.watching.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot >= c.since {
		c.made += units
	}
}

// Refused counts a call that the provider refused for its rate. asked: for how long it
// wants no call; 0: it did not say.
func (c *Counter) Refused(slot, units int64, asked time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slot >= c.since {
		c.refused += units
		c.asked = max(c.asked, asked)
	}
}

// Counts are what a node has counted under one slowdown so far. They are running totals,
// so a report that comes twice does no harm.
type Counts struct {
	Number  int64 // of the slowdown; 0: there is none yet
	Made    int64
	Refused int64
	Asked   time.Duration
	Span    time.Duration // in which they were counted
}

// Counts are those so far.
func (c *Counter) Counts(now time.Time) Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Counts{Number: c.number, Made: c.made, Refused: c.refused, Asked: c.asked, Span: max(0, now.Sub(c.from))}
}
