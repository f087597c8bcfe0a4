package lateness

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"dispatcher/throttle/internal/clock"
)

// RoundTrips are those of the connections that the fleet opened to the provider
// over the last ten minutes.
type RoundTrips struct {
	Connections int64
	Minutes     int // in which one was opened
	Low, High   time.Duration
	Usual       time.Duration // the highest without the worst minute, which a single stop of a host may have caused
}

// SpreadFit says whether a spread fits the round trips.
type SpreadFit string

// What [RoundTrips.Fit] returns.
const (
	SpreadUnknown  SpreadFit = "unknown" // too few connections to tell
	SpreadFits     SpreadFit = "fits"
	SpreadTooSmall SpreadFit = "too_small" // calls can reach the provider closer together than the guard allows for
	SpreadTooLarge SpreadFit = "more_than_needed"
)

// How many connections, opened in how many of the ten minutes, it takes to tell. A
// smaller spread is recommended on more evidence than a larger one.
const (
	fitConnections = 10
	fitMinutes     = 3
	tooLargeFrom   = 6 // minutes
	nearSpread     = 2 * time.Millisecond
)

// Fit compares a spread with how much the round trips vary. The recommended spread is
// one half above that, in whole milliseconds, and 2 ms at least.
func (r RoundTrips) Fit(spread time.Duration) (fit SpreadFit, recommended time.Duration) {
	if r.Connections < fitConnections || r.Minutes < fitMinutes {
		return SpreadUnknown, 0
	}
	if usual := r.Usual - r.Low; usual > spread {
		return SpreadTooSmall, recommend(usual)
	}
	if recommended = recommend(r.High - r.Low); r.Minutes >= tooLargeFrom && 2*recommended <= spread {
		return SpreadTooLarge, recommended
	}
	return SpreadFits, recommended
}

func recommend(vary time.Duration) time.Duration {
	up := vary + vary/2 + time.Millisecond - 1
	return max(nearSpread, up.Truncate(time.Millisecond))
}

// Trips are round trips of one node, or of one minute. The zero value is none.
type Trips struct {
	N         int64
	Low, High time.Duration
}

// Join adds other round trips.
func (t *Trips) Join(o Trips) {
	if t.N == 0 || o.N == 0 {
		if o.N > 0 {
			*t = o
		}
		return
	}
	t.N, t.Low, t.High = t.N+o.N, min(t.Low, o.Low), max(t.High, o.High)
}

// String is the form that lateness.lua reads.
func (t Trips) String() string {
	if t.N == 0 {
		return ""
	}
	return fmt.Sprintf("%d %d %d", t.N, t.Low.Microseconds(), t.High.Microseconds())
}

// TripNotes are the round trips that a node has not reported yet.
type TripNotes struct {
	mu  sync.Mutex
	sum Trips
}

// Join adds round trips.
func (n *TripNotes) Join(t Trips) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sum.Join(t)
}

// Take returns the round trips, and forgets them.
func (n *TripNotes) Take() Trips {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.sum
	n.sum = Trips{}
	return t
}

// keptMinutes are read, the one that is not over included. lateness.lua keeps one
// more.
const keptMinutes = 11

// ReadRoundTrips reads the round trips out of the fields of the lateness key, as they
// are at now, by Redis's clock in µs. Fields of other kinds, and those that can't be
// read, count as no connections.
func ReadRoundTrips(fields map[string]string, now int64) (r RoundTrips) {
	var all Trips
	var highs []time.Duration
	for name, text := range fields {
		var n [4]int64
		if !strings.HasPrefix(name, "m") || !readNumbers(text, n[:]) || n[1] == 0 {
			continue
		}
		if ago := now/time.Minute.Microseconds() - n[0]; ago >= 0 && ago < keptMinutes {
			t := Trips{N: n[1], Low: clock.Duration(n[2]), High: clock.Duration(n[3])}
			all.Join(t)
			highs = append(highs, t.High)
		}
	}
	if len(highs) == 0 {
		return RoundTrips{}
	}
	slices.Sort(highs)
	return RoundTrips{Connections: all.N, Minutes: len(highs), Low: all.Low, High: all.High, Usual: highs[max(0, len(highs)-2)]}
}
