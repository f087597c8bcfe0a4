package throttle

// slidingWindowList looks at the unit that was given cap units ago.
func slidingWindowList() Algorithm {
	return Algorithm{
		Name:    "sliding_window_list",
		Promise: "never over, at the full rate and with bursts of the cap; Redis keeps the reservations of the last cap units",
		Strict:  true,
		Worst:   func(c Contract) int64 { return c.Cap },
		Share:   Contract.Share,
		Binds:   windowed,
		check:   listed,
	}
}
