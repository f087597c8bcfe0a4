package throttle

import "time"

// Terms are what operators change: the contract, the algorithm that keeps it, and
// whether it is paused.
type Terms struct {
	Contract
	Algorithm string // name of one of [Algorithms]
	Paused    bool
}

// String is the terms in one line.
func (t Terms) String() string {
	text := t.Contract.String()
	if t.Algorithm != DefaultAlgorithm {
		text += ", " + t.Algorithm
	}
	if t.Paused {
		return "paused, " + text
	}
	return text
}

// Rails are what a change does not pass unless it is forced. Zero: no such rail.
type Rails struct {
	MaxCap  int64 // units in a window
	MaxStep int64 // thousandths: by which factor the rate may grow or shrink at once; 2000 is double or half
}

// Settings are a limit as it is in force: its terms, and which change made them
// so. They live in Redis; the file only seeds them.
type Settings struct {
	Terms
	Rails
	Revision int64     // counts the changes, from 1
	Changed  time.Time // when, by Redis's clock; zero: seeded from a file
	By       string    // who made the change
	Why      string    // what for
	Undid    int64     // the revision that the change took back; 0: it was no undo

	Until time.Time // when the terms become Was again, by Redis's clock; zero: never
	Was   Terms     // while there is an Until

	packed string    // as Redis holds them; empty: made here
	after  string    // the packed settings that take over at Until; empty: made of Was
	from   time.Time // where the timeline of this revision began, by Redis's clock; zero: seeded
}

// seeded are the settings that a file states.
func seeded(algorithm string, c Contract, r Rails) Settings {
	if algorithm == "" {
		algorithm = DefaultAlgorithm
	}
	return Settings{Terms: Terms{Contract: c, Algorithm: algorithm}, Rails: r, Revision: 1, By: "file"}
}

// same reports whether a change to other would change nothing. An override that ends
// with what holds now is none.
func (s Settings) same(other Settings) bool {
	if s.Terms != other.Terms || s.Rails != other.Rails {
		return false
	}
	if s.Until.IsZero() {
		return other.Until.IsZero() || other.Was == s.Terms
	}
	return s.Until.Equal(other.Until) && s.Was == other.Was
}

// newer reports whether s was made after other. The time decides and not the
// count: a Redis that lost its data and was seeded again counts from 1 again.
func (s Settings) newer(other Settings) bool { return s.Changed.After(other.Changed) }

// stricter reports whether slots that were reserved under old may be too many for s.
func (s Settings) stricter(old Settings) bool {
	if s.Algorithm != old.Algorithm {
		return true
	}
	if s.Paused || old.Contract == s.Contract {
		return s.Paused && !old.Paused
	}
	units, period := s.Pace()
	unitsOld, periodOld := old.Pace()
	return float64(units)*float64(periodOld) < float64(unitsOld)*float64(period) || s.Window > old.Window
}

// ended are the settings that follow an override at its end.
func (s Settings) ended() Settings {
	if after, err := unpack(s.after); err == nil {
		return after
	}
	return Settings{Terms: s.Was, Rails: s.Rails, Changed: s.Until, Revision: s.Revision + 1, By: "dispatcher", Why: "the override is over"}
}
