package throttle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Scope says who keeps a limit together.
type Scope string

// The scopes.
const (
	ScopeCluster Scope = "cluster" // the whole fleet, in Redis
	ScopeNode    Scope = "node"    // each node for itself; Redis is not asked
)

const maxWarmUp = time.Hour

// coldFactor is by how much slower than its pace a limit with a warm-up begins.
const coldFactor = 3

// local keeps a limit within one process: the token bucket of book.lua on the
// process's own monotonic time. With a warm-up the rate rises in a straight line
// over time, from a third of it to the whole, and anew after it was idle for as
// long. It belongs to the booking goroutine.
type local struct {
	origin  time.Time // of its clock
	set     Settings
	warmUp  int64 // µs; 0: none
	base, n int64
	warm    int64 // since when the rate has been rising
	quiet   int64 // no slot before: one of the process before this one may have been just now
}

// localStart is an arbitrary time on the clock of a [local], in µs: 0 would mean none.
const localStart = 1_000_000_000

func newLocal(c Contract, warmUp time.Duration, now time.Time) *local {
	l := &local{origin: now, set: seeded(DefaultAlgorithm, c, Rails{}), warmUp: warmUp.Microseconds()}
	l.quiet = localStart + (c.Lateness + c.Spacing()).Microseconds() + 1
	l.base, l.n, l.warm = l.quiet, c.Burst-1, l.quiet
	return l
}

// CheckScope joins a [FieldError] for each setting that does not go with the scope.
func CheckScope(scope Scope, c Contract, algorithm string, warmUp time.Duration) error {
	var faults []error
	refuse := func(bad bool, field string, value any, why string) {
		if bad {
			faults = append(faults, &FieldError{Field: field, Value: value, Why: why})
		}
	}
	switch scope {
	case "", ScopeCluster:
		refuse(warmUp != 0, "warm_up", warmUp, "is for scope node only")
	case ScopeNode:
		refuse(algorithm != "" && algorithm != DefaultAlgorithm, "algorithm", algorithm, "must be "+DefaultAlgorithm+" with scope node")
		refuse(c.Reserve != 0, "reserve", c.Reserve, "is for scope cluster: a node that asks nobody needs none")
		refuse(warmUp < 0 || warmUp > maxWarmUp, "warm_up", warmUp, fmt.Sprintf("must be from 0s to %s", maxWarmUp))
		refuse(warmUp != 0 && c.Burst > 1, "burst", c.Burst, "must be 1 with warm_up, for a burst is no slow start")
	default:
		refuse(true, "scope", string(scope), "must be cluster or node")
	}
	return errors.Join(faults...)
}

// book is a [bookFunc]; it never fails.
func (l *local) book(_ context.Context, a ask) (booking, error) {
	return l.bookAt(localStart+time.Since(l.origin).Microseconds(), a.want, a.lead.Microseconds()), nil
}

func (l *local) bookAt(now, want, lead int64) booking {
	reply := func(s schedule, wait int64) booking {
		return booking{now: now, epoch: localStart, schedule: s, wait: duration(wait), quiet: l.quiet, settings: l.set}
	}
	nothing := func(wait int64) booking { return reply(schedule{base: now, floor: now, units: 1, period: 1}, wait) }
	if want == 0 {
		return nothing(0)
	}
	floor, horizon := now+lead, l.set.Horizon.Microseconds()
	l.idle(floor)
	units, period := l.pace(l.base)
	s := schedule{base: l.base, n: l.n, floor: floor, units: units, period: period, debt: l.set.Burst - 1}
	room := within(now+horizon-s.base, units, period) + 1 - s.n + s.debt
	if s.given = min(want, max(0, room)); s.given == 0 {
		return nothing(max(0, s.at(want-1)-now-horizon))
	}
	if l.warmUp > 0 { // each booking has a pace of its own, and the next begins a spacing behind it
		l.base, l.n = s.at(s.given), 0
		return reply(s, 0)
	}
	turned := max(0, s.n+s.given-1-s.debt) / units
	l.base, l.n = s.base+turned*period, s.n+s.given-turned*units
	return reply(s, 0)
}

// idle begins the timeline anew at floor where nothing is left of it, and the
// warm-up as well where it has been idle for as long as that.
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
	slower := ceilDiv(1000*coldFactor*l.warmUp, l.warmUp+(coldFactor-1)*up)
	return units, ceilDiv(period*slower, 1000)
}
