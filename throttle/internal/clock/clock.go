package clock

import "time"

// Clock maps Redis's clock to this node's monotonic one. It knows only an interval for
// the offset between the two: a reading that was asked for at m0 and answered at m1
// was made somewhere between. Each reading narrows the
// interval, and time widens it again, for quartz is not exact.
//
// The node's wall clock is never read.
type Clock struct {
	Origin  time.Time // of the node's monotonic time in offsets
	now     bounds    // of the offset, as known now
	former  [3]bounds // the same at earlier times, the oldest first, which shows a slew
	Epoch   int64     // the timeline's epoch that the bounds belong to; 0: no reading yet
	Since   int64     // first reading in that epoch, by Redis's clock
	Trusted int64     // last reading, by Redis's clock; after a step the last one before it
}

// bounds of (Redis's clock − the node's time since origin), as they were known at
// a time.
type bounds struct {
	lo, hi time.Duration
	at     time.Duration // the node's time of the reading; 0: none
	read   int64         // Redis's clock then
}

const (
	// DriftPPM is how far two clocks may run apart: 100 parts per million is
	// twice what a poor quartz does, and a fifth of what NTP may slew.
	DriftPPM = 100
	// stepTolerance is the smallest difference between two readings that counts as a
	// step. The mapping follows a smaller one, which the guard has to cover.
	stepTolerance = 1200 * time.Microsecond
	// slewPPM is how far the clocks may drift apart where more than stepTolerance
	// comes together: NTP may slew by 500 parts per million at any time.
	slewPPM = 600
	// formerEvery lies between the earlier readings that are kept. The oldest is 1 to
	// 1.5 s old in steady work, so a slew of 2000 parts per million is noticed within
	// a second.
	formerEvery = 500 * time.Millisecond
)

// Reading is one reading of Redis's clock.
type Reading struct {
	Asked, Answered time.Time // the node's time, around the call
	Now             int64     // Redis's clock, µs since 1970
	Epoch           int64
}

// Observe adds a reading, and reports whether Redis's clock has stepped or
// slewed since earlier ones. After a step, or in a new epoch, only
// this reading counts.
func (c *Clock) Observe(r Reading) (stepped bool) {
	now := Duration(r.Now)
	raw := bounds{lo: now - r.Answered.Sub(c.Origin), hi: now - r.Asked.Sub(c.Origin), at: r.Answered.Sub(c.Origin), read: r.Now}
	if c.Epoch == 0 || c.Epoch != r.Epoch {
		c.begin(raw, r.Epoch)
		return false
	}
	last := c.Trusted
	switch slow := c.former[0]; {
	case raw.beyond(c.now):
		stepped = true
	case raw.beyond(slow):
		stepped, last = true, slow.read
	}
	if stepped {
		c.begin(raw, r.Epoch)
		c.Trusted = last
		return true
	}
	c.narrow(raw)
	return false
}

// begin forgets the bounds.
func (c *Clock) begin(b bounds, epoch int64) {
	c.now, c.Epoch, c.Since, c.Trusted = b, epoch, b.read, b.read
	c.former = [3]bounds{b, b, b}
}

// narrow adds a reading that agrees with those before it.
func (c *Clock) narrow(raw bounds) {
	lo, hi := c.now.atTime(raw.at)
	if max(raw.lo, lo) <= min(raw.hi, hi) {
		raw.lo, raw.hi = max(raw.lo, lo), min(raw.hi, hi)
	}
	c.now, c.Trusted = raw, raw.read
	if raw.at-c.former[2].at >= formerEvery {
		c.former = [3]bounds{c.former[1], c.former[2], raw}
	}
}

// beyond reports whether b lies further from the known bounds than clocks drift.
func (b bounds) beyond(known bounds) bool {
	lo, hi := known.atTime(b.at)
	allowed := max(stepTolerance, (b.at-known.at)*slewPPM/1_000_000)
	return b.lo > hi+allowed || b.hi < lo-allowed
}

// atTime are the bounds as wide as they are at a later time.
func (b bounds) atTime(at time.Duration) (lo, hi time.Duration) {
	drift := (at - b.at) * DriftPPM / 1_000_000
	return b.lo - drift, b.hi + drift
}

// Width is how uncertain the mapping is at time t.
func (c *Clock) Width(t time.Time) time.Duration {
	lo, hi := c.now.atTime(t.Sub(c.Origin))
	return hi - lo
}

// Slot maps a slot that lies at us on Redis's clock. Whatever the true offset
// is, a call that begins between notBefore and notAfter begins no earlier than
// the slot and no more than lateness after it.
func (c *Clock) Slot(us int64, lateness time.Duration, at time.Time) (notBefore, notAfter time.Time) {
	lo, hi := c.now.atTime(at.Sub(c.Origin))
	return c.Origin.Add(Duration(us) - lo), c.Origin.Add(Duration(us) - hi + lateness)
}

// Earlier is the earlier of two times.
func Earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Later is the later of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
