package lateness

import (
	"fmt"
	"math"
	"time"

	"dispatcher/throttle/limit"
)

// Used is the share of the cap that these slots would have used with a lateness.
func (c Counts) Used(k limit.Contract, lateness time.Duration) float64 {
	return k.Window.Seconds() / (k.Window + lateness + k.Spread).Seconds() * c.inTime(lateness)
}

// gain is by how much more of the cap these slots would have used with a lateness
// than with the one in force.
func (c Counts) gain(k limit.Contract, to time.Duration) float64 {
	return c.Used(k, to) - c.Used(k, k.Lateness)
}

// chance is the standard error of the gain: how far chance alone may have moved
// it. It is infinite where there are too few counts to tell.
func chance(k limit.Contract, to time.Duration, counts []Counts) float64 {
	n, sum, squares := 0.0, 0.0, 0.0
	for _, c := range counts {
		if c.Total() == 0 {
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

// Best is the class with which these slots would have used most of the cap; the
// lowest of several.
func (c Counts) Best(k limit.Contract) (lateness time.Duration) {
	most := -1.0
	for _, class := range limit.LatenessClasses {
		if used := c.Used(k, class); k.Fits(class) && used > most {
			lateness, most = class, used
		}
	}
	return lateness
}

// Evidence is the fleet's counts since the lateness rose last.
type Evidence struct {
	Since    time.Duration // ago, when counting began
	Patience time.Duration // how long it must have gone on before the lateness may fall
	Seconds  []Counts      // of each of the last few seconds, the newest first; the newest is not over
	Tens     []Counts      // of each ten seconds of the last five minutes, likewise
}

// Bounds of the patience. It doubles when the lateness rises again soon after it
// fell, so that a machine on the edge between two classes does not change the
// terms all day.
const (
	LeastPatience = 5 * time.Minute
	mostPatience  = time.Hour
)

// PatienceAfter is the patience once the lateness has risen: fell is how long ago
// it fell last, negative where it never did.
func PatienceAfter(patience, fell time.Duration) time.Duration {
	if fell < 0 || fell > 2*patience {
		return LeastPatience
	}
	return min(2*patience, mostPatience)
}

// rule says how much a class must gain over the last counts to be chosen. A gain
// that is no more than chance, such as that of a single stop, does not count.
type rule struct {
	over   string // for people
	tens   bool   // of ten seconds; else of one
	counts int
	gain   float64       // of the cap, from 0 to 1
	sure   float64       // times its standard error, at least
	after  time.Duration // counting must have gone on for so long
	down   bool          // it may choose a lower class as well
}

var rules = [...]rule{ //nolint:gochecknoglobals // a constant table
	{over: "5s", counts: 5, gain: 0.01, sure: 2},
	{over: "1m", tens: true, counts: 6, gain: 0.002, sure: 3, after: 30 * time.Second},
	{over: "5m", tens: true, counts: 30, gain: 0.001, sure: 2, after: 5 * time.Minute, down: true},
}

// LeastSlots are the fewest that say anything: one more or less of them in time
// changes no choice.
const LeastSlots = 200

// WhyPrefix begins the reason of each choice in the history.
const WhyPrefix = "guard auto: "

// Choice is a lateness to take, and the reason that the counts give.
type Choice struct {
	Lateness time.Duration
	Why      string // for the history, behind [WhyPrefix]
}

// Choose returns the lateness to take instead of the one in force; ok is
// false where that one stays.
func Choose(k limit.Contract, e Evidence) (choice Choice, ok bool) {
	for _, r := range rules {
		counts := e.Seconds
		if r.tens {
			counts = e.Tens
		}
		counts = counts[:min(r.counts, len(counts))]
		if to, ok := r.choose(k, e, counts); ok {
			return to, true
		}
	}
	return Choice{}, false
}

func (r rule) choose(k limit.Contract, e Evidence, counts []Counts) (Choice, bool) {
	all := sum(counts)
	to := all.Best(k)
	switch {
	case e.Since < r.after || all.Total() < LeastSlots:
		return Choice{}, false
	case to == k.Lateness || (to < k.Lateness && (!r.down || e.Since < e.Patience)):
		return Choice{}, false
	case all.gain(k, to) <= max(r.gain, r.sure*chance(k, to, counts)):
		return Choice{}, false
	}
	return Choice{Lateness: to, Why: fmt.Sprintf("%.1f %% of the slots of %s in time with lateness %s, %.1f %% with %s",
		100*all.inTime(k.Lateness), r.over, k.Lateness, 100*all.inTime(to), to)}, true
}

// standstill is how many seconds without a slot in time show that no node works, of which the newest is not
// over: nodes with few slots report every 3 s, or with their next poll 4 s later.
const standstill = 8

// ChooseAtStandstill returns the first class of lateness above least, for a fleet whose jobs wait in vain:
// the slots of a node are late by at least that, and where no slot is used no count says so. While any other
// node uses slots in time, ok is false: the cap is not cut for a single node that has a bad way to Redis.
// That one leaves its jobs to the others.
func ChooseAtStandstill(k limit.Contract, e Evidence, least time.Duration) (choice Choice, ok bool) {
	if len(e.Seconds) < standstill {
		return Choice{}, false
	}
	recent := sum(e.Seconds[:standstill])
	works := recent.Total() > 0 && recent.inTime(k.Lateness) > 0
	to := k.WithLateness(least + 1).Lateness
	if works || to <= least {
		return Choice{}, false
	}
	return Choice{Lateness: to, Why: fmt.Sprintf("no slot was in time with lateness %s, for a node knows the clock of redis to %s at best",
		k.Lateness, least.Round(100*time.Microsecond))}, true
}
