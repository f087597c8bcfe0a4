package lease

import (
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// Length is how long a lease of the reserve lasts, and so how long a node can send without
// Redis.
const Length = 10 * time.Minute

const (
	renew = Length / 10 // so often a node asks for a lease, or renews it
	// slack is for a clock that runs slower than Redis's: the node's lease ends before Redis's
	// count of it.
	slack = Length / 1000
)

// Slot is a time at which a call may begin by the lease, and its end.
type Slot struct{ NotBefore, NotAfter time.Time }

// Lease is a node's part of the reserve, on its own monotonic clock. Times are arguments. It is
// for one goroutine.
type Lease struct {
	Until time.Time // its end; zero: no lease
	AskAt time.Time // the next call
	Next  time.Time // no slot before
	End   time.Time // use-by of the last slot

	period time.Duration // Window + Guard under which the last slot was given
	units  int64         // and the units in it
	cost   int64         // and those of the largest job
}

// Held reports whether the lease still runs at now: by the monotonic clock, and
// by the wall clock as well, for the first stands still in a machine that sleeps.
func (l *Lease) Held(now time.Time) bool {
	return now.Before(l.Until) && now.Round(0).Before(l.Until.Round(0))
}

// State is the node's report of its lease at now.
func (l *Lease) State(now time.Time) script.LeaseState {
	if l.Held(now) {
		return script.LeaseHeld
	}
	return script.LeaseNone
}

// Take handles a reply to a call made at asked. The lease counts from there, so that
// it ends here before Redis gives it to another node. A new lease is taken only if
// the reading that came with it can be trusted: a clock that jumped may have ended
// the leases of others.
func (l *Lease) Take(asked time.Time, granted, trusted bool) {
	l.AskAt = asked.Add(renew)
	switch {
	case !granted:
		l.Until = time.Time{}
	case trusted || l.Held(asked):
		l.Until = asked.Add(Length - slack)
	default:
		l.AskAt = asked.Add(limit.PollMost)
	}
}

// Slots gives the first jobs, of these costs, a slot each that begins before now + ahead,
// on an exact schedule: any units + 1 of them span at least Window + Guard, and gaps only
// grow. A job's units go at once, so the schedule has fewer of them, as [limit.Contract.Pace]
// says. After a change of the pace a whole period passes first, so that no span mixes the
// two.
func (l *Lease) Slots(set limit.Settings, now time.Time, ahead time.Duration, costs []int64) []Slot {
	units, cost, period := set.UnitsOfNode(), set.LargestCost(), set.ReservePeriod()
	if units == 0 || set.Paused || !l.Held(now) {
		return nil
	}
	if l.units != 0 && (l.units != units || l.cost != cost || l.period != period) {
		l.Next = clock.Later(l.Next, l.End.Add(max(l.period, period)))
	}
	l.units, l.cost, l.period = units, cost, period
	paced := time.Duration(units - cost + 1)
	spacing := (period + paced - 1) / paced
	var slots []Slot
	l.Next = clock.Later(l.Next, now)
	for _, c := range costs {
		if !l.Next.Before(now.Add(ahead)) {
			break
		}
		slot := Slot{NotBefore: l.Next, NotAfter: l.Next.Add(set.Lateness)}
		if slot.NotAfter.After(l.Until) {
			break
		}
		slots, l.End = append(slots, slot), slot.NotAfter
		l.Next = l.Next.Add(min(spacing, period/time.Duration(c)+1) * time.Duration(c)) // a whole period is always enough
	}
	return slots
}
