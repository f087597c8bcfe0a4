package throttle

import "time"

// This file has what several algorithms say alike.

// windowed is how long a unit counts, and an algorithm has to look back.
func windowed(c Contract) time.Duration { return c.Window + c.Guard }

// given is what Redis gives out of the cap.
func given(c Contract) int64 { return c.Cap - c.Reserve }

// sideBySide is what a window holds at most where two fillings may meet, all
// but one unit: the one that the first filling began with, or the last.
func sideBySide(c Contract) int64 { return 2*given(c) - 1 + c.Reserve }

// noBurst refuses a burst where there is nothing that it could set.
func noBurst(why string) func(Contract) []error {
	return func(c Contract) []error {
		if c.Burst == 1 {
			return nil
		}
		return []error{&FieldError{Field: "burst", Value: c.Burst, Why: why}}
	}
}

// wholeCap is for algorithms that let go at once whatever the window still holds.
const wholeCap = "must be 1: this algorithm lets up to the whole cap go at once; for a smaller burst use token_bucket"

// maxListed is how many units an algorithm may keep: one by one, where each is
// reserved alone.
const maxListed = 1_000_000

// listed refuses a cap that would need too much memory.
func listed(c Contract) []error {
	faults := noBurst(wholeCap)(c)
	if c.Cap > maxListed {
		faults = append(faults, &FieldError{
			Field: "cap", Value: c.Cap,
			Why: "must be at most 1000000, for Redis may keep an entry for each unit; state the contract over a shorter window, or use token_bucket",
		})
	}
	return faults
}
