package throttle

import (
	"cmp"
	"math"
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/limit"
)

// How the reserving goroutine paces itself. Slots are reserved in blocks, so that
// the number of calls does not depend on the rate: one block of 20 ms makes
// about 50 calls a second for the whole fleet.
const (
	block      = 20 * time.Millisecond // slots that one call reserves, at most; more where Redis is further away than that
	gatesBlock = 2 * block             // the same where gates refuse some jobs: a call learns more of them
	prefetch   = 10 * time.Millisecond // before the last slot held the next block is reserved; likewise
	minGap     = 5 * time.Millisecond  // after a reservation of less than a block, so that jobs gather
	maxPour    = 4096                  // units that are poured into a bucket at once
)

// pollsFirst reports whether Redis is to be asked for its news before any unit: it is away,
// or may grant something else than this node knows.
func (r *reserver) pollsFirst() bool {
	return r.clock.Epoch == 0 || r.failures > 0 || r.stepped || r.pollNow
}

// grants reports whether a reservation may be made, as far as this node knows.
func (r *reserver) grants(now time.Time) bool {
	return !r.pollsFirst() && !r.tooWide(now) && !now.Before(r.beginsAt) && !r.known.Paused
}

// pollDue is when Redis is to be asked without a request.
func (r *reserver) pollDue(now time.Time) time.Time {
	if r.pollsFirst() || r.tooWide(now) || r.onLease(now) {
		return r.retryAt
	}
	if now.Before(r.beginsAt) {
		// Until every other node has polled once, nobody notices a step that Redis's
		// clock made just before this node started; only then is its reading good.
		return clock.Later(r.retryAt, r.beginsAt)
	}
	due := r.calledAt.Add(r.pollInterval())
	if !r.pollAt.IsZero() {
		due = clock.Earlier(due, r.pollAt)
	}
	due = clock.Earlier(due, r.newsDue())
	return clock.Later(due, r.retryAt)
}

// newsDue is when a poll is worth it for what Redis does not know: corrections, and calls in flight that are
// over, whose room other nodes may want. A node that waits in the queue keeps its place there, and
// tells it with its next call.
func (r *reserver) newsDue() time.Time {
	since, some := r.corrections.Waiting()
	if !r.freedAt.IsZero() && (!some || r.freedAt.Before(since)) {
		since, some = r.freedAt, true
	}
	if !some || r.lanes[r.placed()].place.Taken {
		return never
	}
	return clock.Later(since, r.calledAt).Add(slots.Gather)
}

// heedRefunds has a refused node ask before its time: units are free that were not used. It keeps
// its place in the queue.
func (r *reserver) heedRefunds(now time.Time) {
	if r.kind.Refunds && r.corrections.WorthAsking(now) {
		r.allLanes(func(l *lane) { l.eager, l.less = true, false })
	}
}

// never is later than anything that is waited for.
var never = time.Unix(1<<40, 0) //nolint:gochecknoglobals // a constant

// turnDue is when a lane gets its turn. It gets none while nothing is
// granted. A poll that falls due before gives it as well, since a reservation keeps the
// node's place in the queue.
func (r *reserver) turnDue(number int, now time.Time) time.Time {
	if r.onLease(now) {
		return clock.Later(r.lease.Next.Add(-aheadOfCall), r.reservedAt.Add(minGap))
	}
	if !r.grants(now) {
		return never
	}
	due := clock.Later(clock.Earlier(r.pollDue(now), r.reservationDue(number)), r.retryAt)
	return clock.Later(due, r.opensAt.Add(-cmp.Or(r.reach(), r.known.Horizon)))
}

// units is how many units a reservation may ask for. Where a full bucket refuses, all
// jobs that wait are to get their answer at once. On the lease they are those that it gives
// while a call to Redis hangs.
func (r *reserver) units(now time.Time) int64 {
	switch {
	case r.onLease(now):
		units, period := r.known.UnitsOfNode(), r.known.ReservePeriod()
		return max(1, (units*int64(aheadOfCall)+int64(period)-1)/int64(period))
	case r.refuses():
		return maxPour
	}
	return max(1, min(r.most, r.blockSize()))
}

// How many jobs a reservation offers where slots may go to any of them.
const (
	jobsASlot  = 3    // gates may not let some pass
	jobsToFill = 20   // beside a block, where units are granted for now and jobs count differently
	mostJobs   = 400  // of a call: the script looks at each of them, for 10 ms in all
	mostStates = 4000 // of gates that the jobs of a call name: a script can't take many more keys
	anyUnits   = math.MaxInt64
)

// room says for which jobs the next reservation of a lane is to ask.
func (r *reserver) room(number int, now time.Time) Room {
	units := r.units(now)
	room := Room{Lane: number, Units: units, Jobs: int(units)}
	if len(r.opts.Gates) > 0 {
		room = Room{number, anyUnits, int(jobsASlot * units), true}
	}
	if r.fills() && !r.onLease(now) {
		room = Room{number, anyUnits, max(room.Jobs, int(units)+jobsToFill), true}
	}
	if len(r.opts.Gates) > 0 {
		room.Jobs = min(room.Jobs, mostJobs, mostStates/len(r.opts.Gates))
	}
	return room
}

// fills reports whether small jobs take the units that a large one finds too few.
func (r *reserver) fills() bool { return !r.kind.Ahead && r.known.LargestCost() > 1 }

// wanted is how many units a reservation asks for. Where slots may go to any of the jobs, that
// is a block, or as much as the largest of them.
func (r *reserver) wanted(asked []request, now time.Time) int64 {
	units := unitsOf(asked)
	if len(r.opts.Gates) == 0 && !r.fills() || units == 0 {
		return units
	}
	most := r.units(now)
	for _, q := range asked {
		most = max(most, q.Cost)
	}
	return min(units, most)
}

// reservationDue is when the next reservation of a lane is worth a call.
func (r *reserver) reservationDue(number int) time.Time {
	l := r.lane(number)
	gathered := l.reservedAt.Add(minGap)
	if r.refuses() {
		return gathered
	}
	due := l.last.Add(-r.prefetch(number))
	if reach := r.laneReach(number); reach > 0 && l.last.Sub(l.reservedAt) > reach { // it was owed its slots, and may be owed more
		due = l.reservedAt.Add(block)
	}
	if l.sparse { // jobs that gates let pass may get slots before the last one
		due = gathered
		if l.whole {
			due = clock.Later(due, l.reservedAt.Add(r.atLeast(r.block())-r.prefetch(number)))
		}
	}
	if !l.eager {
		due = clock.Later(due, l.refusedUntil)
	}
	if !l.whole || l.less || !r.kind.Ahead {
		due = clock.Later(due, gathered)
	}
	if l.less && r.kind.Ahead { // units that become free meanwhile, and jobs that gates let pass, lie a horizon away
		due = clock.Later(due, l.reservedAt.Add(min(r.atLeast(r.block()), cmp.Or(r.reach(), r.known.Horizon)/4)))
	}
	return due
}

// pollInterval is shorter where nobody notifies the node of changes.
func (r *reserver) pollInterval() time.Duration {
	if r.notices.Notified.Load() {
		return idleEvery
	}
	return limit.PollEvery
}

// refuses reports whether a full bucket turns callers away, under the algorithm in
// force.
func (r *reserver) refuses() bool { return r.kind.Name == limit.LeakyBucket && r.opts.Limit.Refuses() }

// reach is how far ahead this node's slots may lie; 0: the horizon alone bounds it.
func (r *reserver) reach() time.Duration {
	if r.kind.Name != limit.LeakyBucket {
		return 0
	}
	return r.opts.Limit.Reach(r.known.Contract)
}

func (r *reserver) block() time.Duration {
	if len(r.opts.Gates) > 0 {
		return gatesBlock
	}
	return block
}

// blockSize is how many slots lie in one block, at least 1.
func (r *reserver) blockSize() int64 {
	c := r.known.Contract
	return int64(math.Ceil(r.reports.feedback.Slowdown().Share(c)*r.kind.Share(c)*float64(c.Cap)*r.atLeast(r.block()).Seconds()/c.Window.Seconds() - 1e-9))
}

// atLeast is how far ahead a node works: a time that saves calls, or more where
// Redis is far. A node that is stopped loses the slots that it holds. Where the
// fleet chose a longer lateness, because its hosts stop, nodes hold as few as
// the way to Redis allows. With gates it stays a block: two or three jobs a call would use half
// of the cap, and take a call for each.
func (r *reserver) atLeast(usual time.Duration) time.Duration {
	if r.known.Auto && r.known.Lateness > limit.LatenessClasses[0] {
		most := time.Duration(0)
		if len(r.opts.Gates) > 0 {
			most = block
		}
		usual = min(usual, most)
	}
	return max(usual, r.rtt+spare)
}

// tooWide reports whether the mapping leaves a slot too little time to be used.
func (r *reserver) tooWide(now time.Time) bool {
	return slots.LeastLate(r.clock.Width(now)) >= r.known.Lateness
}
