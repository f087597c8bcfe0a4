package throttle

import "time"

// redisCell asks the module redis-cell, which Redis must have loaded. The module
// rounds its spacing down to whole ns; Worst counts with that.
func redisCell() Algorithm {
	return Algorithm{
		Name:    "redis_cell",
		Promise: "as gcra, by the module redis-cell, in whole ns",
		Worst: func(c Contract) int64 {
			spacing := c.Window.Nanoseconds() / given(c)
			return c.Burst - 1 + ceilDiv(windowed(c).Nanoseconds(), spacing) + c.Reserve
		},
		Share: unpaid,
		Binds: unpaidSpacing,
		check: func(c Contract) []error {
			if c.Window%time.Second == 0 {
				return nil
			}
			return []error{&FieldError{Field: "window", Value: c.Window, Why: "must be whole seconds, for redis-cell counts in them; or use gcra"}}
		},
	}
}
