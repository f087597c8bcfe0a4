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
		check: gcraFaults,
	}
}

// unpaid is the part of the cap that Redis gives.
func unpaid(c Contract) float64 { return float64(given(c)) / float64(c.Cap) }

func unpaidSpacing(c Contract) time.Duration {
	return time.Duration(math.Ceil(c.Window.Seconds()/float64(given(c))*1e6)) * time.Microsecond
}

// gcraFaults refuses what the script could not count exactly.
func gcraFaults(c Contract) []error {
	units, period := given(c), c.Window.Microseconds()
	d := gcd(units, period)
	if c.Burst+units/d <= maxProduct/(period/d) {
		return nil
	}
	return []error{&FieldError{
		Field: "window", Value: c.Window,
		Why: "together with this cap and burst it is too large to be counted exactly; state the contract over a shorter window",
	}}
}
