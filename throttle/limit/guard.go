package limit

import "time"

// LatenessClasses are the values that the lateness can take where the fleet chooses
// it, rising.
var LatenessClasses = [...]time.Duration{ //nolint:gochecknoglobals // a constant table
	3 * time.Millisecond, 5 * time.Millisecond, 8 * time.Millisecond, 12 * time.Millisecond,
	20 * time.Millisecond, 30 * time.Millisecond, 50 * time.Millisecond,
}

// LatenessClass is the first class in which a slot that was late by d is in time;
// behind the last one where none is.
func LatenessClass(d time.Duration) int {
	for i, c := range LatenessClasses {
		if d <= c {
			return i
		}
	}
	return len(LatenessClasses)
}

// Fits reports whether the fleet may choose a class: a lateness takes at most a
// twentieth of the window, and the guard at most as much as [Contract.Validate] allows.
func (c Contract) Fits(class time.Duration) bool {
	return class == LatenessClasses[0] || (class*20 <= c.Window && MinWindowGuards*(class+c.Spread) <= c.Window)
}

// WithLateness is the contract with a guard of auto and a class of lateness: the first
// one that is as long as the lateness given, or the longest that fits.
func (c Contract) WithLateness(lateness time.Duration) Contract {
	longest := c.LongestLateness()
	if i := LatenessClass(lateness); i < len(LatenessClasses) {
		longest = min(longest, LatenessClasses[i])
	}
	c.Auto, c.Lateness, c.Guard = true, longest, longest+c.Spread
	return c
}

// LongestLateness is the most that the fleet chooses where the guard is auto.
func (c Contract) LongestLateness() (longest time.Duration) {
	for _, class := range LatenessClasses {
		if c.Fits(class) {
			longest = class
		}
	}
	return longest
}

// Stated is the contract without the values that the fleet chooses.
func (c Contract) Stated() Contract {
	if c.Auto {
		c.Guard, c.Lateness = 0, 0
	}
	return c
}

// ChoosesLateness reports whether the fleet chooses the lateness of these settings.
// Only slots on a timeline have times of their own.
func (s Settings) ChoosesLateness() bool {
	a, _ := AlgorithmNamed(s.Algorithm) // the zero value of a newer release's
	return s.Auto && a.Ahead && !s.Paused
}

// WithLateness are the settings with another lateness, chosen at now. The terms to
// which an override returns get it as well, where their guard is auto.
func (s Settings) WithLateness(lateness time.Duration, why string, now time.Time) Settings {
	spans := s.Spans()
	for i := range spans {
		if i == 0 || spans[i].Auto {
			spans[i].Contract = spans[i].WithLateness(lateness)
		}
	}
	return s.Successor(Dispatcher, why, now).WithSpans(spans)
}
