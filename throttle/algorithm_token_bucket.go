package throttle

import "time"

// tokenBucket books slots ahead on one exact timeline. A burst is paid for out
// of the sustained rate: see [Contract.Pace].
func tokenBucket() Algorithm {
	return Algorithm{
		Name:    "token_bucket",
		Promise: "never over; a burst is paid for out of the sustained rate",
		Strict:  true,
		Ahead:   true,
		Worst:   func(c Contract) int64 { return c.Cap },
		Share:   Contract.Share,
		Binds:   func(c Contract) time.Duration { return c.Spacing() },
		check:   func(Contract) []error { return nil },
	}
}
