package throttle

// slidingWindowCounter weighs the count of the bucket before. Of each bucket
// that follows a full one, the last unit comes free only when it is over.
func slidingWindowCounter() Algorithm {
	return Algorithm{
		Name:    "sliding_window_counter",
		Promise: "near the cap under steady load, up to twice the cap after a late burst; two numbers in Redis",
		Worst:   sideBySide,
		Share: func(c Contract) float64 {
			n := float64(given(c))
			return c.Share() * max((n-1)/n, 0.5)
		},
		Binds: windowed,
		check: noBurst(wholeCap),
	}
}
