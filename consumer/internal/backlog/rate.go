package backlog

import (
	"math"
	"time"
)

// rateSpan is how far back a rate looks: an event that long ago counts a third.
const rateSpan = 30 * time.Second

// Rate is how many events a second there were lately, as an exponentially weighted average. The zero value has seen none. To count an
// event reads no clock. So the rate takes the events between two readings for evenly spread, and is as good as it is read often.
type Rate struct {
	rate    float64   // a second, as of at, if nothing was counted before since, however long ago
	counted int       // since at
	at      time.Time // of the last reading
	since   time.Time // of the last one before the first event
}

// Count counts one.
func (r *Rate) Count() { r.counted++ }

// PerSecond is the rate now. The first reading is 0: it is not known yet since when. The time before the first event does not count:
// else the rate of a node would be too low for its first minute. What follows is taken for a second at least.
func (r *Rate) PerSecond(now time.Time) float64 {
	if r.at.IsZero() || r.rate == 0 && r.counted == 0 {
		*r = Rate{at: now, since: now}
		return 0
	}
	if passed := now.Sub(r.at); passed > 0 {
		r.rate += (float64(r.counted)/passed.Seconds() - r.rate) * fades(passed)
		r.counted, r.at = 0, now
	}
	return r.rate / fades(max(now.Sub(r.since), time.Second))
}

// fades is how much less something counts after a time, as a part of 1.
func fades(after time.Duration) float64 { return -math.Expm1(-after.Seconds() / rateSpan.Seconds()) }
