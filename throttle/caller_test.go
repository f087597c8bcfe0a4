package throttle

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// caller takes slots one after the other. Meanwhile a goroutine reserves for as many jobs
// as wait, as a node's pacer does. It is for one context.
type caller struct {
	*Limiter

	jobs   int // that wait at any time
	begin  sync.Once
	got    chan Answer
	unused atomic.Int64 // slots that were reserved and not taken
}

func callerOf(l *Limiter, jobs int) *caller {
	return &caller{Limiter: l, jobs: jobs, got: make(chan Answer, 4096)}
}

// next returns a slot that is not over, or why there is none.
func (c *caller) next(ctx context.Context) (Slot, error) {
	c.begin.Do(func() { go c.reserveAhead(ctx) })
	for {
		select {
		case a := <-c.got:
			if a.Err != nil {
				return Slot{}, a.Err
			}
			c.unused.Add(-1)
			if !a.Slot.OverAt(time.Now()) {
				return a.Slot, nil
			}
			c.Missed(a.Slot)
		case <-ctx.Done():
			return Slot{}, context.Cause(ctx)
		}
	}
}

func (c *caller) reserveAhead(ctx context.Context) {
	for {
		room, err := c.Turn(ctx, OneLane, nil)
		if err != nil {
			return
		}
		answers, err := c.Reserve(ctx, slices.Repeat([]Request{{Cost: 1}}, min(room.Jobs, c.jobs)))
		if err != nil {
			return
		}
		for _, a := range answers {
			if !a.Slot.IsZero() || a.Err != nil {
				c.unused.Add(1)
				c.got <- a
			}
		}
	}
}
