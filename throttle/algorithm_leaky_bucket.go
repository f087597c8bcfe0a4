package throttle

// leakyBucket books slots ahead, one by one, and never two at once.
func leakyBucket() Algorithm {
	return Algorithm{
		Name:    "leaky_bucket",
		Promise: "never over, and evenly spaced",
		Strict:  true,
		Ahead:   true,
		Worst:   func(c Contract) int64 { return c.Cap },
		Share:   Contract.Share,
		Binds:   Contract.Spacing,
		check:   noBurst("must be 1: a leaky bucket lets units go one by one; for a burst use token_bucket"),
	}
}
