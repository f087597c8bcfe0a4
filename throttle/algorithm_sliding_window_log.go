package throttle

// slidingWindowLog keeps each reservation of the last window.
func slidingWindowLog() Algorithm {
	return Algorithm{
		Name:    "sliding_window_log",
		Promise: "never over, at the full rate and with bursts of the cap; Redis keeps each reservation of a window",
		Strict:  true,
		Worst:   func(c Contract) int64 { return c.Cap },
		Share:   Contract.Share,
		Binds:   windowed,
		check:   listed,
	}
}
