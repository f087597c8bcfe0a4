package sender

import (
	"time"
)

// Demand says what waits for connections.
type Demand struct {
	Jobs  int           // that could be called now; no more connections are dialled ahead
	Every time.Duration // from one call to the next, while nothing is in their way
}

const (
	// leastTick bounds how often a wait for a connection looks again.
	leastTick = time.Millisecond
	mostTick  = 100 * time.Millisecond
	// spareShare is the part of the wait between two calls that counts.
	spareShare = 8
	// reviewEvery is how often the stock may shrink.
	reviewEvery = 5 * time.Second
	// failureLasts is for how long a dial that failed answers for a job.
	failureLasts = 100 * time.Millisecond
)

// stock decides how many connections are dialled before somebody takes them. It
// follows what it sees, and needs to know neither how long a dial takes nor
// whether the provider keeps connections:
//
//   - While a caller waits for a connection, one more is wanted for each call that
//     could have been made meanwhile. So in the end as many are being dialled as
//     calls are made in the time that a dial takes.
//   - Connections that nobody needed for a while are not wanted any more. Where the
//     provider keeps connections, those that come back are enough, and nothing is
//     dialled ahead.
type stock struct {
	target  int           // connections that are wanted, idle and being dialled
	dialing int           // are on their way
	short   time.Duration // of waiting that has not raised the target yet; less than one Demand.Every

	low  int       // idle connections that nobody needed since the last review
	next time.Time // when the review is due

	failed   int // dials that failed and have not answered for a job
	failedAt time.Time
	err      error
}

// missing is how many dials are to begin.
func (s *stock) missing(d Demand, idle int) int {
	want := s.target
	if idle == 0 {
		want = max(want, 1)
	}
	return max(0, min(want, d.Jobs)-idle-s.dialing)
}

// waited takes in that a caller, for whom nothing was at hand, waited on from one
// time after its beginning to another. The first Every would have passed between
// two calls in any case; it counts for little, so that a connection comes a bit
// before its slot in the end. What goes beyond it cost slots.
func (s *stock) waited(from, to time.Duration, d Demand) {
	every := max(d.Every, time.Microsecond)
	counts := func(wait time.Duration) time.Duration { return min(wait, every)/spareShare + max(0, wait-every) }
	s.short += counts(to) - counts(from)
	s.target = max(s.target, min(s.target+int(s.short/every), d.Jobs))
	s.short %= every
}

// took takes in that a connection was taken, and that so many are left.
func (s *stock) took(idle int, now time.Time) {
	s.low = min(s.low, idle)
	if now.Before(s.next) {
		return
	}
	if !s.next.IsZero() {
		s.target = max(0, s.target-s.low/2)
	}
	s.low, s.next = idle, now.Add(reviewEvery)
}

// dialed takes in the end of a dial. One that failed is not made again unless
// somebody waits.
func (s *stock) dialed(err error, now time.Time) {
	s.dialing--
	if err == nil {
		s.failed = 0
		return
	}
	s.target = max(0, s.target-1)
	s.failed++
	s.failedAt, s.err = now, err
}

// failure is the error of a dial that failed a moment ago; each answers once.
func (s *stock) failure(now time.Time) error {
	if now.Sub(s.failedAt) > failureLasts {
		s.failed = 0
	}
	if s.failed == 0 {
		return nil
	}
	s.failed--
	return s.err
}

// tick is how long a caller waits until it looks again.
func (d Demand) tick() time.Duration { return min(max(d.Every, leastTick), mostTick) }
