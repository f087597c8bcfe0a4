package throttle

import (
	"math"
	"time"
)

// gcra paces by the cap alone: neither the burst nor the guard is paid for.
func gcra() Algorithm {
	return Algorithm{
		Name:    "gcra",
		Promise: "the cap sustained, and a burst beside it: over by about the burst; as redis-cell, exact to the µs",
		Worst: func(c Contract) int64 {
			inGuard := ceilDiv(c.Guard.Microseconds()*given(c), c.Window.Microseconds())
			return c.Burst - 1 + given(c) + inGuard + c.Reserve
		},
		Share: unpaid,
		Binds: unpaidSpacing,
		check: func(Contract) []error { return nil },
	}
}

// unpaid is the part of the cap that Redis gives.
func unpaid(c Contract) float64 { return float64(given(c)) / float64(c.Cap) }

func unpaidSpacing(c Contract) time.Duration {
	return time.Duration(math.Ceil(c.Window.Seconds()/float64(given(c))*1e6)) * time.Microsecond
}
