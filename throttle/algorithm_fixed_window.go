package throttle

// fixedWindow counts in windows that begin with their first unit.
func fixedWindow() Algorithm {
	return Algorithm{
		Name:    "fixed_window",
		Promise: "up to twice the cap where two windows meet; one number in Redis",
		Worst:   sideBySide,
		Share:   Contract.Share,
		Binds:   windowed,
		check:   noBurst(wholeCap),
	}
}
