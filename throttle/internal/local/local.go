// Package local keeps a limit within one process, by the script's token bucket on the
// process's own monotonic time. It asks no Redis and starts no goroutine.
package local

import (
	"context"
	"math"
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// coldFactor is by how much slower than its pace a limit with a warm-up begins.
const coldFactor = 3

// Limit is a limit within one process. With a warm-up the rate rises in a straight line
// over time, from a third of the pace to all of it, and again after it was idle for
// as long. It belongs to one goroutine.
type Limit struct {
	origin    time.Time // of its clock
	set       limit.Settings
	warmUp    int64 // µs; 0: none
	base, n   int64
	warm      int64 // since when the rate has been rising
	notBefore int64 // no slot before: one of the process before this one may have been just now
}

// full is when to ask again where max_in_flight leaves no room, in µs; sooner when a
// call is over.
const full = 20_000

// Start is an arbitrary time on the clock of a [Limit], in µs: 0 would mean none.
const Start = 1_000_000_000

// New begins as if the process before this one had just used its last slot.
func New(s limit.Spec, now time.Time) *Limit {
	l := &Limit{origin: now, set: s.Settings(), warmUp: s.WarmUp.Microseconds()}
	a, _ := limit.AlgorithmNamed(limit.TokenBucket)
	l.notBefore = Start + (s.Lateness + a.Cooldown(s.Contract)).Microseconds() + 1
	l.base, l.n, l.warm = l.notBefore, s.Burst-1, l.notBefore
	return l
}

// Reserve answers as the script does; it never fails. Where max_in_flight is set, it names a shortage of calls for each
// refusal.
func (l *Limit) Reserve(_ context.Context, a script.Ask) (script.Reservation, error) {
	return l.ReserveAt(Start+time.Since(l.origin).Microseconds(), a), nil
}

// ReserveAt is Reserve at a time on the clock of the limit, in µs.
func (l *Limit) ReserveAt(now int64, a script.Ask) script.Reservation {
	short := script.ShortOfNothing // where each node keeps its limit, no bucket refuses
	if l.set.MaxInFlight > 0 {
		short = script.ShortOfCalls
	}
	reply := func(s clock.Schedule, wait int64) script.Reservation {
		return script.Reservation{Short: short, Now: now, Epoch: Start, Schedule: s, Wait: clock.Duration(wait), NotBefore: l.notBefore, Settings: l.set}
	}
	nothing := func(wait int64) script.Reservation {
		return reply(clock.Schedule{Base: now, Floor: now, Units: 1, Period: 1}, wait)
	}
	l.correct(now, a.Corrections)
	if a.Want == 0 {
		return nothing(0)
	}
	floor, horizon := now+a.Nearest.Microseconds(), l.set.Horizon.Microseconds()
	l.idle(floor)
	units, period := l.pace(l.base)
	s := clock.Schedule{Base: l.base, N: l.n, Floor: floor, Units: units, Period: period, Debt: l.set.Burst - 1}
	free := clock.Within(now+horizon-s.Base, units, period) + 1 - s.N + s.Debt
	most := int64(math.MaxInt64)
	if l.set.MaxInFlight > 0 {
		if most = l.set.MaxInFlight - a.Busy; most < 1 {
			return nothing(full)
		}
	}
	s.Given = a.Fitting(free, a.Want, most, l.set.LargestCost())
	if s.Given == 0 {
		return nothing(max(0, s.At(a.BeforeLast(a.Want))-now-horizon))
	}
	if l.warmUp > 0 { // each reservation has a pace of its own, and the next begins a spacing behind it
		l.base, l.n = s.At(s.Given), 0
		return reply(s, 0)
	}
	turned := max(0, s.N+s.Given-1-s.Debt) / units
	l.base, l.n = s.Base+turned*period, s.N+s.Given-turned*units
	return reply(s, 0)
}

// correct charges units beside those that were granted: the next slots lie behind them, by a window
// at most. Time in which nothing was asked for pays too.
func (l *Limit) correct(now int64, all []script.Correction) {
	if len(all) == 0 {
		return
	}
	units, period := l.pace(l.base)
	window := (l.set.Window + l.set.Guard).Microseconds()
	most := max(l.n, clock.Within(now+window-l.base, units, period)+l.set.Burst)
	for _, c := range all {
		l.n = min(most, l.n+min(max(0, -c.Units), l.set.Cap))
	}
}

// idle begins the timeline again at floor where nothing is left of it, and the
// warm-up as well where the limit has been idle for as long as that.
func (l *Limit) idle(floor int64) {
	units, period := l.set.Pace()
	last := l.base + clock.After(l.n, units, period)
	if last >= floor {
		return
	}
	if floor-last >= l.warmUp {
		l.warm = floor
	}
	l.base, l.n = floor, 0
}

// pace is that of slots at a time; while the limit warms up a slower one, to a
// thousandth.
func (l *Limit) pace(at int64) (units, period int64) {
	units, period = l.set.Pace()
	if l.warmUp == 0 {
		return units, period
	}
	up := min(max(0, at-l.warm), l.warmUp)
	warm := l.warmUp + (coldFactor-1)*up
	slower := (1000*coldFactor*l.warmUp + warm - 1) / warm
	return units, (period*slower + 999) / 1000
}
