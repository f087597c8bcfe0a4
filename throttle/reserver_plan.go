package throttle

import (
	"cmp"
	"math"
	"time"

	"dispatcher/throttle/limit"
)

// How the reserving goroutine paces itself. Slots are reserved in blocks, so that
// the number of calls does not depend on the rate: one block of 20 ms makes
// about 50 calls a second for the whole fleet.
const (
	block    = 20 * time.Millisecond // slots that one call reserves, at most; more where Redis is further away than that
	prefetch = 10 * time.Millisecond // before the last held slot the next block is reserved; likewise
	minGap   = 5 * time.Millisecond  // between calls that reserve less than a block, so that demand gathers
	maxPour  = 4096                  // units that are poured into a bucket at once
)

// plan says how many slots are wanted and when the next call is due.
func (r *reserver) plan(now time.Time) (want int64, due time.Time) {
	st := r.queue.state(now)
	r.noteLate(st.late)
	r.metrics.held.Set(float64(st.held))
	poll := r.calledAt.Add(r.pollInterval())
	if !r.pollAt.IsZero() && r.pollAt.Before(poll) {
		poll = r.pollAt
	}
	switch {
	case r.clock.Epoch == 0 || r.stepped || r.tooWide(now) || r.onLease(now):
		return 0, r.retryAt
	case now.Before(r.settledAt):
		// Until every other node has polled once, nobody notices a step that Redis's
		// clock made just before this node started; only then is its reading good.
		return 0, later(r.retryAt, r.settledAt)
	}
	want = r.wanted(st)
	if r.pollNow {
		return 0, r.retryAt
	}
	if want <= 0 {
		return 0, later(poll, r.retryAt)
	}
	due = later(r.retryAt, r.reservationDue(st, want))
	// A poll that falls due meanwhile asks as well, and keeps the node's place.
	if poll.Before(due) {
		due = later(poll, r.retryAt)
	}
	return want, due
}

// wanted is how many slots the next reservation asks for. Slots that are granted for
// now are of no use to a node that still holds some. Where a full bucket refuses,
// all callers that wait are to get their answer at once.
func (r *reserver) wanted(st queueState) int64 {
	want := r.demand(st)
	switch {
	case r.refuses():
		return min(want, maxPour)
	case !r.kind.Ahead && st.held > 0:
		return 0
	}
	return min(want, r.most, r.blockSize())
}

// demand is how many slots are lacking. While a caller waits again, all that is held
// are refusals, which do not serve it.
func (r *reserver) demand(st queueState) int64 {
	return int64(st.again + max(0, st.waiting+r.opts.Waiting()-st.held))
}

// reservationDue is when the next reservation is worth a call.
func (r *reserver) reservationDue(st queueState, want int64) time.Time {
	if r.refuses() {
		return r.reservedAt.Add(minGap)
	}
	due := r.refusedUntil
	if st.held > 0 {
		due = later(due, st.last.Add(-r.atLeast(prefetch)))
	}
	if want < r.blockSize() {
		due = later(due, r.reservedAt.Add(minGap))
	}
	if r.less && r.kind.Ahead { // units that become free meanwhile lie a horizon away, and are not lost
		due = later(due, r.reservedAt.Add(min(block, cmp.Or(r.reach(), r.known.Horizon)/4)))
	}
	return due
}

// pollInterval is shorter where nobody notifies the node of changes.
func (r *reserver) pollInterval() time.Duration {
	if r.notified.Load() {
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

// blockSize is how many slots lie in one block, at least 1.
func (r *reserver) blockSize() int64 {
	c := r.known.Contract
	return int64(math.Ceil(r.kind.Share(c)*float64(c.Cap)*r.atLeast(block).Seconds()/c.Window.Seconds() - 1e-9))
}

// atLeast is how far ahead a node works: a time that saves calls, or more where
// Redis is far. A node that is stopped loses the slots that it holds. Where the
// fleet chose a longer lateness, because its hosts stop, nodes hold as few as
// the way to Redis allows.
func (r *reserver) atLeast(usual time.Duration) time.Duration {
	if r.known.Auto && r.known.Lateness > limit.LatenessClasses[0] {
		usual = 0
	}
	return max(usual, r.rtt+spare)
}

// tooWide reports whether the mapping leaves a slot too little time to be used:
// the margin before the write, and the timer that wakes its caller.
func (r *reserver) tooWide(now time.Time) bool {
	const timer = 300 * time.Microsecond
	return r.clock.Width(now)+margin+timer >= r.known.Lateness
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
