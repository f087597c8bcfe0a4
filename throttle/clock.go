package throttle

import "time"

// clock maps Redis's clock to this node's monotonic one. It knows no more than
// an interval for the offset between the two: a reading that was asked for at
// m0 and answered at m1 was made somewhere between. Each reading narrows the
// interval, and time widens it again, for quartz is not exact.
//
// The node's wall clock is never asked.
type clock struct {
	origin time.Time     // of the node's monotonic time in offsets
	lo, hi time.Duration // bounds of (Redis's clock − node's time since origin)
	read   time.Duration // node's time of the last reading
	epoch  int64         // the timeline's epoch that the interval belongs to; 0: no reading yet
}

const (
	// driftPPM is how far two clocks may run apart: 100 parts per million is
	// twice what a poor quartz does, and a fifth of what NTP may slew.
	driftPPM = 100
	// stepTolerance is the smallest difference that counts as a step. What is
	// smaller is followed, and has to be covered by the guard.
	stepTolerance = 2 * time.Millisecond
)

// reading is one look at Redis's clock.
type reading struct {
	asked, answered time.Time // the node's time, around the call
	now             int64     // Redis's clock, µs since 1970
	epoch           int64
}

// observe takes a reading in, and reports whether Redis's clock has stepped
// since the last one. A step, or a new epoch, makes the reading the only
// knowledge.
func (c *clock) observe(r reading) (stepped bool) {
	now := duration(r.now)
	lo, hi := now-r.answered.Sub(c.origin), now-r.asked.Sub(c.origin)
	at := r.answered.Sub(c.origin)
	known := c.epoch != 0 && c.epoch == r.epoch
	if known {
		kl, kh := c.bounds(at)
		stepped = lo > kh+stepTolerance || hi < kl-stepTolerance
		if max(lo, kl) <= min(hi, kh) {
			lo, hi = max(lo, kl), min(hi, kh)
		}
	}
	c.lo, c.hi, c.read, c.epoch = lo, hi, at, r.epoch
	return stepped
}

// bounds are the interval's bounds as wide as they are at time at.
func (c *clock) bounds(at time.Duration) (lo, hi time.Duration) {
	drift := (at - c.read) * driftPPM / 1_000_000
	return c.lo - drift, c.hi + drift
}

// width is how uncertain the mapping is at time t.
func (c *clock) width(t time.Time) time.Duration {
	lo, hi := c.bounds(t.Sub(c.origin))
	return hi - lo
}

// slot maps a slot that lies at us on Redis's clock. Whatever the true offset
// is, a call that begins between NotBefore and NotAfter begins no earlier than
// the slot and no more than lateness after it.
func (c *clock) slot(us int64, lateness time.Duration, at time.Time) Slot {
	lo, hi := c.bounds(at.Sub(c.origin))
	return Slot{
		NotBefore: c.origin.Add(duration(us) - lo),
		NotAfter:  c.origin.Add(duration(us) - hi + lateness),
	}
}
