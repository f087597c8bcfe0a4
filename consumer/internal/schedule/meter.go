package schedule

import (
	"math"
	"time"
)

// meterSpan is how far back a meter looks: an event that long ago counts a third.
const meterSpan = 30 * time.Second

// meter is a rate as an exponentially weighted average. The scheduler's lock
// guards it.
type meter struct {
	rate float64 // a second, as of at
	at   time.Time
}

// tick counts one.
func (m *meter) tick(now time.Time) {
	m.rate, m.at = m.perSecond(now)+1/meterSpan.Seconds(), now
}

// perSecond is the rate now.
func (m *meter) perSecond(now time.Time) float64 {
	if m.rate == 0 {
		return 0
	}
	return m.rate * math.Exp(-now.Sub(m.at).Seconds()/meterSpan.Seconds())
}
