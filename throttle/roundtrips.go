package throttle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// This file answers whether the spread of a limit fits the way to its provider.
// Each node notes the round trip of every connection that it opens and reports
// them with its late slots; Redis keeps count, lowest and highest of each minute.
// A call takes the way there alone; how much that differs is taken to be no more
// than how much round trips do. Where a proxy ends the connection, the way behind
// it is not seen.

// RoundTrips are those of the connections that the fleet opened to the provider
// over the last ten minutes.
type RoundTrips struct {
	Connections int64
	Minutes     int // in which one was opened
	Low, High   time.Duration
	Usual       time.Duration // the highest without the worst minute: a single stop of a host is no property of the way
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

// tripCount are round trips of one node, or of one minute. The zero value is none.
type tripCount struct {
	n         int64
	low, high time.Duration
}

func (t *tripCount) join(o tripCount) {
	if t.n == 0 || o.n == 0 {
		if o.n > 0 {
			*t = o
		}
		return
	}
	t.n, t.low, t.high = t.n+o.n, min(t.low, o.low), max(t.high, o.high)
}

// String is what lateness.lua takes.
func (t tripCount) String() string {
	if t.n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %d %d", t.n, t.low.Microseconds(), t.high.Microseconds())
}

// tripNotes are the round trips that a node has not reported yet.
type tripNotes struct {
	mu  sync.Mutex
	sum tripCount
}

func (n *tripNotes) join(t tripCount) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sum.join(t)
}

func (n *tripNotes) take() tripCount {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.sum
	n.sum = tripCount{}
	return t
}

// NoteRoundTrip takes in the round trip of a connection to the provider that was
// just opened. With a guard of auto the fleet compares them with the spread.
func (l *Limiter) NoteRoundTrip(d time.Duration) { l.trips.join(tripCount{n: 1, low: d, high: d}) }

// RoundTrips returns those that the nodes of a limit reported up to now, by Redis's
// clock. There are none where the guard is stated.
func (c *Control) RoundTrips(ctx context.Context, now time.Time) (RoundTrips, error) {
	fields, err := c.rdb.HGetAll(ctx, c.keys.lateness).Result()
	if err != nil {
		return RoundTrips{}, fmt.Errorf("read the round trips of limit %q: %w", c.name, err)
	}
	var m tripMinutes
	for name, text := range fields {
		m.read(name, text, now.UnixMicro())
	}
	return m.sum(), nil
}

// keptMinutes are looked at, the one that is not over included. lateness.lua keeps
// one more.
const keptMinutes = 11

// tripMinutes are the round trips by minute, the newest first.
type tripMinutes [keptMinutes]tripCount

// read takes in one field of the hash. Fields of other kinds, and those that can't
// be read, count as no connections.
func (m *tripMinutes) read(field, text string, now int64) {
	var n [4]int64
	if !strings.HasPrefix(field, "m") || !readNumbers(text, n[:]) {
		return
	}
	if ago := now/time.Minute.Microseconds() - n[0]; ago >= 0 && ago < int64(len(m)) {
		m[ago] = tripCount{n: n[1], low: duration(n[2]), high: duration(n[3])}
	}
}

func (m *tripMinutes) sum() (r RoundTrips) {
	var all tripCount
	var highs []time.Duration
	for _, t := range m {
		if t.n > 0 {
			all.join(t)
			highs = append(highs, t.high)
		}
	}
	if len(highs) == 0 {
		return RoundTrips{}
	}
	slices.Sort(highs)
	return RoundTrips{Connections: all.n, Minutes: len(highs), Low: all.low, High: all.high, Usual: highs[max(0, len(highs)-2)]}
}
