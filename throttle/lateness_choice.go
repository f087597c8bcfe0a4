package throttle

import (
	"fmt"
	"math"
	"time"
)

// This file chooses the lateness of a limit whose guard is auto. It is pure:
// counts in, a class out. lateness_report.go brings the counts.
//
// A longer lateness lets more slots be used in time, and makes all slots lie
// further apart. The share of the cap that is used with lateness L is
//
//	W / (W + L + spread) × share of the slots that are in time with L
//
// and the fleet takes the L for which that is largest. Slots count fleet-wide and
// each once, so a node weighs as much as it has slots.

// latenessClasses are the values that the lateness can take, rising.
var latenessClasses = [...]time.Duration{ //nolint:gochecknoglobals // a constant table
	3 * time.Millisecond, 5 * time.Millisecond, 8 * time.Millisecond, 12 * time.Millisecond,
	20 * time.Millisecond, 30 * time.Millisecond, 50 * time.Millisecond,
}

// lateCounts counts slots by the first class in which they are in time. The last
// element counts those that are later than every class.
type lateCounts [len(latenessClasses) + 1]int64

// latenessClass is the first class in which a slot that was late by d is in time.
func latenessClass(d time.Duration) int {
	for i, c := range latenessClasses {
		if d <= c {
			return i
		}
	}
	return len(latenessClasses)
}

func (c *lateCounts) add(other lateCounts) {
	for i := range c {
		c[i] += other[i]
	}
}

func (c lateCounts) minus(other lateCounts) lateCounts {
	for i := range c {
		c[i] -= other[i]
	}
	return c
}

func (c lateCounts) total() (n int64) {
	for _, v := range c {
		n += v
	}
	return n
}

// inTime is the share of the slots, from 0 to 1, that are in time with a
// lateness. Without slots it is 1. A lateness between two classes counts as the
// lower one.
func (c lateCounts) inTime(lateness time.Duration) float64 {
	total := c.total()
	if total == 0 {
		return 1
	}
	var n int64
	for i, class := range latenessClasses {
		if i == 0 || class <= lateness {
			n += c[i]
		}
	}
	return float64(n) / float64(total)
}

// used is the share of the cap that these slots would have used with a lateness.
func (c lateCounts) used(k Contract, lateness time.Duration) float64 {
	return k.Window.Seconds() / (k.Window + lateness + k.Spread).Seconds() * c.inTime(lateness)
}

// gain is by how much more of the cap these slots would have used with a lateness
// than with the one in force.
func (c lateCounts) gain(k Contract, to time.Duration) float64 {
	return c.used(k, to) - c.used(k, k.Lateness)
}

// chance is the standard error of the gain: how far chance alone may have moved
// it. It is infinite where there are too few counts to tell.
func chance(k Contract, to time.Duration, counts []lateCounts) float64 {
	n, sum, squares := 0.0, 0.0, 0.0
	for _, c := range counts {
		if c.total() == 0 {
			continue
		}
		g := c.gain(k, to)
		n, sum, squares = n+1, sum+g, squares+g*g
	}
	if n < 3 {
		return math.Inf(1)
	}
	mean := sum / n
	return math.Sqrt(max(0, squares/n-mean*mean) / (n - 1))
}

// fits reports whether a class may be chosen under a contract: a lateness takes
// at most a twentieth of the window, and the guard at most what
// [Contract.Validate] allows.
func fits(class time.Duration, window, spread time.Duration) bool {
	return class == latenessClasses[0] || (class*20 <= window && MinWindowGuards*(class+spread) <= window)
}

// best is the class with which these slots would have used most of the cap; the
// lowest of several.
func (c lateCounts) best(k Contract) (lateness time.Duration) {
	most := -1.0
	for _, class := range latenessClasses {
		if used := c.used(k, class); fits(class, k.Window, k.Spread) && used > most {
			lateness, most = class, used
		}
	}
	return lateness
}

// lateEvidence is what the fleet has counted since the lateness rose last.
type lateEvidence struct {
	since    time.Duration // ago, when counting began
	patience time.Duration // how long it must have gone on before the lateness may fall
	seconds  []lateCounts  // of each of the last few seconds, the newest first; the newest is not over
	tens     []lateCounts  // of each ten seconds of the last five minutes, likewise
}

// Bounds of the patience. It doubles when the lateness rises again soon after it
// fell, so that a machine on the edge between two classes does not change the
// terms all day.
const (
	leastPatience = 5 * time.Minute
	mostPatience  = time.Hour
)

// patienceAfter is the patience once the lateness has risen: fell is how long ago
// it fell last, negative where it never did.
func patienceAfter(patience, fell time.Duration) time.Duration {
	if fell < 0 || fell > 2*patience {
		return leastPatience
	}
	return min(2*patience, mostPatience)
}

// When a class is chosen: what it must gain over the last counts. A gain that is
// no more than chance, such as that of a single stop, does not count.
type latenessRule struct {
	over   string // for people
	tens   bool   // of ten seconds; else of one
	counts int
	gain   float64       // of the cap, from 0 to 1
	sure   float64       // times its standard error, at least
	after  time.Duration // counting must have gone on for so long
	down   bool          // it may choose a lower class as well
}

var latenessRules = [...]latenessRule{ //nolint:gochecknoglobals // a constant table
	{over: "5s", counts: 5, gain: 0.01, sure: 2},
	{over: "1m", tens: true, counts: 6, gain: 0.002, sure: 3, after: 30 * time.Second},
	{over: "5m", tens: true, counts: 30, gain: 0.001, sure: 2, after: 5 * time.Minute, down: true},
}

// leastSlots are the fewest that say anything: one more or less of them in time
// changes no choice.
const leastSlots = 200

// latenessChoice is a lateness to take, and what the counts said for it.
type latenessChoice struct {
	lateness time.Duration
	why      string // for the history
}

// chooseLateness returns the lateness to take instead of the one in force; ok is
// false where that one stays.
func chooseLateness(k Contract, e lateEvidence) (choice latenessChoice, ok bool) {
	for _, r := range latenessRules {
		counts := e.seconds
		if r.tens {
			counts = e.tens
		}
		counts = counts[:min(r.counts, len(counts))]
		if to, ok := r.choose(k, e, counts); ok {
			return to, true
		}
	}
	return latenessChoice{}, false
}

func (r latenessRule) choose(k Contract, e lateEvidence, counts []lateCounts) (latenessChoice, bool) {
	var all lateCounts
	for _, c := range counts {
		all.add(c)
	}
	to := all.best(k)
	switch {
	case e.since < r.after || all.total() < leastSlots:
		return latenessChoice{}, false
	case to == k.Lateness || (to < k.Lateness && (!r.down || e.since < e.patience)):
		return latenessChoice{}, false
	case all.gain(k, to) <= max(r.gain, r.sure*chance(k, to, counts)):
		return latenessChoice{}, false
	}
	return latenessChoice{lateness: to, why: fmt.Sprintf("guard auto: %.1f %% of the slots of %s in time with lateness %s, %.1f %% with %s",
		100*all.inTime(k.Lateness), r.over, k.Lateness, 100*all.inTime(to), to)}, true
}
