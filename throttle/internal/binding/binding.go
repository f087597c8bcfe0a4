// Package binding reckons the share of the time, of late, in which jobs waited for a limit on a node.
// Times are arguments, and a [Share] belongs to one goroutine.
package binding

import (
	"math"
	"time"
)

// span is over how long the share is smoothed: what was so long ago counts a third.
const span = 30 * time.Second

// Share is from 0 to 1. The zero value has seen no job wait.
type Share struct {
	share float64   // as of at
	at    time.Time // when it was last noted until when jobs wait
	until time.Time // jobs wait from at until then
}

// Note notes that jobs wait from now on until a time; the zero time: none does.
func (s *Share) Note(now, until time.Time) {
	s.share = s.At(now)
	s.at, s.until = now, until
}

// Noted is when it was last noted until when jobs wait.
func (s *Share) Noted() time.Time { return s.at }

// At is the share at now.
func (s *Share) At(now time.Time) float64 {
	if s.at.IsZero() {
		return 0
	}
	waited := min(max(0, s.until.Sub(s.at)), now.Sub(s.at))
	return decayed(1+decayed(s.share-1, waited), now.Sub(s.at)-waited)
}

// decayed is what is left of a value after a time.
func decayed(value float64, d time.Duration) float64 {
	return value * math.Exp(-d.Seconds()/span.Seconds())
}
