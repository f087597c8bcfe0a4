package throttle

import "time"

// Settings are a limit as it is in force: the contract, whether it is paused,
// and which change made it so. They live in Redis; the file only seeds them.
type Settings struct {
	Contract
	Paused   bool
	Revision int64     // counts the changes, from 1
	Changed  time.Time // when, by Redis's clock; zero: seeded from a file
	By       string    // who made the change

	from time.Time // where the timeline of this revision began, by Redis's clock; zero: seeded
}

// newer reports whether s was made after other. The time decides and not the
// count: a Redis that lost its data and was seeded anew counts from 1 again.
func (s Settings) newer(other Settings) bool { return s.Changed.After(other.Changed) }
