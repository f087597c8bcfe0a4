package throttle

import (
	"time"

	"dispatcher/internal/fault"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
)

// Lanes is a set of lanes. Bit n stands for lane n, counted from 0: the jobs of lane 0 are the
// most urgent.
type Lanes uint16

// OneLane is the set of lanes where jobs have no lanes.
const OneLane Lanes = 1

// MaxLanes is how many lanes there may be.
const MaxLanes = 16

// has reports whether a lane is in the set.
func (l Lanes) has(lane int) bool { return l&(1<<lane) != 0 }

// checkMinShares checks the min shares of all lanes.
func checkMinShares(shares []float64) error {
	var faults fault.List
	faults.Refuse(len(shares) > MaxLanes, "lanes", len(shares), "must be at most %d", MaxLanes)
	sum := 0.0
	for _, share := range shares {
		inside := share >= 0 && share < 1 // false for NaN
		faults.Refuse(!inside, "min_share", share, "must be at least 0 and below 1")
		sum += share
	}
	faults.Refuse(sum >= 1, "min_share", sum, "must be below 1, all lanes together")
	return faults.Err()
}

// lastReach is how far ahead the slots of the last lane may lie, at least: two blocks, so that
// one node holds a block while another one asks for the next.
const lastReach = 2 * block

// lane is what the reserving goroutine knows of the jobs of one lane. Where the fleet has one queue for
// all lanes, lane 0 stands for all of them; but each has its own credit.
type lane struct {
	place        script.Place // in the queue of refused nodes; due from refusedUntil on
	refusedUntil time.Time    // no reservation until then
	reservedAt   time.Time    // last reservation
	last         time.Time    // when the last slot that was granted and not given up begins
	credit       float64      // units by which its min share is behind, of what this node was granted

	eager  bool // a refused node asks before its time
	less   bool // than it asked for: all that may be reserved is
	sparse bool // the slots of the last reservation lie further apart than those of a block: gates allowed no more
	whole  bool // the last reservation was a block or more
}

// oneQueue reports whether jobs of all lanes wait in one queue of the fleet: units are granted for now, or
// those without room are refused. Then lanes order the jobs of a node alone.
func (r *reserver) oneQueue() bool { return len(r.lanes) == 1 || !r.kind.Ahead || r.refuses() }

// lane is what is known of a lane's jobs.
func (r *reserver) lane(number int) *lane {
	if r.oneQueue() {
		number = 0
	}
	return &r.lanes[number]
}

// laneOfCall is a lane as the script is to know it.
func (r *reserver) laneOfCall(number int) script.Lane {
	if r.oneQueue() {
		return script.Lane{}
	}
	return script.Lane{Number: number, Reach: r.laneReach(number), MinShares: r.opts.MinShares}
}

// allLanes does the same to all lanes.
func (r *reserver) allLanes(do func(*lane)) {
	for i := range r.lanes {
		do(&r.lanes[i])
	}
}

// waiting are the lanes of the jobs that wait for a slot.
func (r *reserver) waiting() (waiting Lanes) {
	if !r.turn.IsZero() {
		waiting = r.turn.Q
	}
	for _, w := range r.again {
		waiting |= 1 << w.Q.Lane
	}
	return waiting
}

// nextTurn is the lane that gets the next turn, and when. It is the most urgent one that waits. A
// lane behind it has its turn where it is owed a unit.
func (r *reserver) nextTurn(now time.Time) (next int, due time.Time) {
	next, due = -1, never
	waiting := r.waiting()
	for i := range r.lanes {
		if !waiting.has(i) {
			continue
		}
		at := r.turnDue(i, now)
		if next < 0 || r.lanes[i].credit >= 1 && (!at.After(now) || at.Before(due)) {
			next, due = i, at
		}
	}
	return max(0, next), due
}

// pay notes that a lane got so many units. Those that have jobs meanwhile are owed their share. What a
// lane gets while no other one has jobs is not held against it.
func (r *reserver) pay(got int, units int64) {
	if len(r.lanes) == 1 {
		return
	}
	most := float64(r.blockSize() + r.known.LargestCost())
	for i, share := range r.opts.MinShares {
		l := &r.lanes[i]
		switch {
		case i == got && r.ready&^(1<<got) != 0:
			l.credit = max(-most, l.credit-float64(units)*(1-share))
		case i != got && r.ready.has(i):
			l.credit = min(most, l.credit+float64(units)*share)
		default:
			l.credit = 0
		}
	}
}

// placed is a lane in whose queue the node has a place; lane 0 where it has none. A poll gives it up.
func (r *reserver) placed() int {
	for i := range r.lanes {
		if r.lanes[i].place.Taken {
			return i
		}
	}
	return 0
}

// laneReach is how far ahead the slots of a lane may lie; 0: as far as the horizon. The last lane's
// lie two blocks ahead, half of the horizon at most, those of the lanes between in equal steps. So a job of the first lane finds room
// behind the slots of all others.
func (r *reserver) laneReach(number int) time.Duration {
	if number == 0 || r.oneQueue() {
		return 0
	}
	least := min(max(lastReach, 2*r.atLeast(r.block())), r.known.Horizon/2)
	behind := len(r.lanes) - 1 - number
	return least + max(0, r.known.Horizon-least)*time.Duration(behind)/time.Duration(len(r.lanes)-1)
}

// prefetch is how long before the last slot that a lane holds it asks for more. While it has jobs, no
// lane behind it finds room in front of them.
func (r *reserver) prefetch(number int) time.Duration {
	usual := r.atLeast(prefetch)
	if number == len(r.lanes)-1 || r.oneQueue() {
		return usual
	}
	return usual + r.laneReach(number+1)
}

// lastSlot is when the last slot of all lanes begins.
func (r *reserver) lastSlot() (last time.Time) {
	r.allLanes(func(l *lane) { last = clock.Later(last, l.last) })
	return last
}
