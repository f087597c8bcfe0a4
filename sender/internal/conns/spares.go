package conns

import "time"

// Demand says what needs connections.
type Demand struct {
	Jobs   int           // that could be called now; no more connections are dialled ahead
	Every  time.Duration // from one call to the next, at the rate of the limit
	Lacked int           // jobs that found no connection just now, while there were slots for them
}

// tick is how long a caller waits until it checks again.
func (d Demand) tick() time.Duration { return min(max(d.Every, leastTick), mostTick) }

const (
	// leastTick and mostTick bound how often a wait for a connection checks again.
	leastTick = time.Millisecond
	mostTick  = 100 * time.Millisecond
	// spareShare is the part of the wait between two calls that counts.
	spareShare = 8
	// reviewEvery is how often the target may shrink.
	reviewEvery = 5 * time.Second
	// FailureLasts is how long a failed dial is the answer to a call.
	FailureLasts = 100 * time.Millisecond
)

// spares decides how many connections the pool dials ahead. It follows the waits and
// the takes it sees, and needs to know neither how long a dial takes nor whether the
// provider keeps connections:
//
//   - While a caller waits for a connection, the target rises by one for each call
//     that could have been made meanwhile. In the end as many connections are being
//     dialled as calls are made in the time of a dial.
//   - Where jobs of one reservation found no connection, the target rises to as many.
//   - The target falls by connections that nobody needed for a while. Where the
//     provider keeps connections, those that come back are enough, and none is
//     dialled ahead.
type spares struct {
	target  int           // connections that are wanted, idle and being dialled
	dialing int           // dials under way
	short   time.Duration // waiting that has not raised the target yet; less than one Demand.Every

	unused int       // least number of idle connections since the last review
	next   time.Time // when the review is due

	failed   int // failed dials that no caller has learned of
	failedAt time.Time
	err      error
}

// missing is how many dials are to begin.
func (s *spares) missing(d Demand, idle int) int {
	want := s.target
	if idle == 0 {
		want = max(want, 1)
	}
	return max(0, min(want, d.Jobs)-idle-s.dialing)
}

// waited notes that a caller without a connection waited on from one time after its
// beginning to another. The first Every passes between two calls in any case. It
// counts for little, so that a connection comes a bit before its slot. Waiting beyond
// it cost slots, and counts in full.
func (s *spares) waited(from, to time.Duration, d Demand) {
	every := max(d.Every, time.Microsecond)
	counts := func(wait time.Duration) time.Duration { return min(wait, every)/spareShare + max(0, wait-every) }
	s.short += counts(to) - counts(from)
	s.target = max(s.target, min(s.target+int(s.short/every), d.Jobs))
	s.short %= every
}

// lacked notes how many jobs found no connection.
func (s *spares) lacked(d Demand) {
	s.target = max(s.target, min(d.Lacked, d.Jobs))
}

// took notes that a connection was taken, and how many idle ones are left.
func (s *spares) took(idle int, now time.Time) {
	s.unused = min(s.unused, idle)
	if now.Before(s.next) {
		return
	}
	if !s.next.IsZero() {
		s.target = max(0, s.target-s.unused/2)
	}
	s.unused, s.next = idle, now.Add(reviewEvery)
}

// dialed notes the end of a dial. A failed dial is not repeated unless somebody
// waits.
func (s *spares) dialed(err error, now time.Time) {
	s.dialing--
	if err == nil {
		s.failed = 0
		return
	}
	s.target = max(0, s.target-1)
	s.failed++
	s.failedAt, s.err = now, err
}

// failing reports whether a dial failed a moment ago and no caller has learned of it.
func (s *spares) failing(now time.Time) bool {
	if now.Sub(s.failedAt) > FailureLasts {
		s.failed = 0
	}
	return s.failed > 0
}

// failure is the error of a dial that failed a moment ago, once for each such dial.
func (s *spares) failure(now time.Time) error {
	if !s.failing(now) {
		return nil
	}
	s.failed--
	return s.err
}
