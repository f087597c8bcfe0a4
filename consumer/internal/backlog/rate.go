package backlog

import (
	"math"
	"time"
)

// rateSpan is how far back a rate looks: an event that long ago counts a third.
const rateSpan = 30 * time.Second

// Rate is how many events a second there were lately, as an exponentially weighted average. The zero value has seen none.
type Rate struct {
	rate  float64   // a second, as of at, if nothing was counted before since, however long ago
	at    time.Time // of the last one
	since time.Time // of the first one
}

// Tick counts one.
func (r *Rate) Tick(now time.Time) {
	if r.since.IsZero() {
		r.since = now
	}
	r.rate, r.at = r.decayed(now)+1/rateSpan.Seconds(), now
}

func (r *Rate) decayed(now time.Time) float64 {
	return r.rate * math.Exp(-now.Sub(r.at).Seconds()/rateSpan.Seconds())
}

// PerSecond is the rate now. The time before the first event does not count: else the rate of a node would be too low for its first
// minute. It is taken for a second at least.
func (r *Rate) PerSecond(now time.Time) float64 {
	if r.rate == 0 {
		return 0
	}
	known := max(now.Sub(r.since), time.Second)
	return r.decayed(now) / (1 - math.Exp(-known.Seconds()/rateSpan.Seconds()))
}
