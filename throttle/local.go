package throttle

import (
	"context"
	"time"
)

// coldFactor is by how much slower than its pace a limit with a warm-up begins.
const coldFactor = 3

// local keeps a limit within one process: the script's token bucket on the
// process's own monotonic time. With a warm-up the rate rises in a straight line
// over time, from a third of the pace to all of it, and again after it was idle for
// as long. It belongs to the reserving goroutine.
type local struct {
	origin    time.Time // of its clock
	set       Settings
	warmUp    int64 // µs; 0: none
	base, n   int64
	warm      int64 // since when the rate has been rising
	notBefore int64 // no slot before: one of the process before this one may have been just now
}

// localStart is an arbitrary time on the clock of a [local], in µs: 0 would mean none.
const localStart = 1_000_000_000

func newLocal(s Spec, now time.Time) *local {
	l := &local{origin: now, set: s.Settings(), warmUp: s.WarmUp.Microseconds()}
	l.notBefore = localStart + (s.Lateness + s.Spacing()).Microseconds() + 1
	l.base, l.n, l.warm = l.notBefore, s.Burst-1, l.notBefore
	return l
}

// reserve is a [reserveFunc]; it never fails.
func (l *local) reserve(_ context.Context, a ask) (reservation, error) {
	return l.reserveAt(localStart+time.Since(l.origin).Microseconds(), a.want, a.lead.Microseconds()), nil
}

func (l *local) reserveAt(now, want, lead int64) reservation {
	reply := func(s schedule, wait int64) reservation {
		return reservation{now: now, epoch: localStart, schedule: s, wait: duration(wait), notBefore: l.notBefore, settings: l.set}
	}
	nothing := func(wait int64) reservation {
		return reply(schedule{base: now, floor: now, units: 1, period: 1}, wait)
	}
	if want == 0 {
		return nothing(0)
	}
	floor, horizon := now+lead, l.set.Horizon.Microseconds()
	l.idle(floor)
	units, period := l.pace(l.base)
	s := schedule{base: l.base, n: l.n, floor: floor, units: units, period: period, debt: l.set.Burst - 1}
	free := within(now+horizon-s.base, units, period) + 1 - s.n + s.debt
	if s.given = min(want, max(0, free)); s.given == 0 {
		return nothing(max(0, s.at(want-1)-now-horizon))
	}
	if l.warmUp > 0 { // each reservation has a pace of its own, and the next begins a spacing behind it
		l.base, l.n = s.at(s.given), 0
		return reply(s, 0)
	}
	turned := max(0, s.n+s.given-1-s.debt) / units
	l.base, l.n = s.base+turned*period, s.n+s.given-turned*units
	return reply(s, 0)
}

// idle begins the timeline again at floor where nothing is left of it, and the
// warm-up as well where the limit has been idle for as long as that.
func (l *local) idle(floor int64) {
	units, period := l.set.Pace()
	full := l.base + after(l.n, units, period)
	if full >= floor {
		return
	}
	if floor-full >= l.warmUp {
		l.warm = floor
	}
	l.base, l.n = floor, 0
}

// pace is that of slots at a time; while the limit warms up a slower one, to a
// thousandth.
func (l *local) pace(at int64) (units, period int64) {
	units, period = l.set.Pace()
	if l.warmUp == 0 {
		return units, period
	}
	up := min(max(0, at-l.warm), l.warmUp)
	warm := l.warmUp + (coldFactor-1)*up
	slower := (1000*coldFactor*l.warmUp + warm - 1) / warm
	return units, (period*slower + 999) / 1000
}
