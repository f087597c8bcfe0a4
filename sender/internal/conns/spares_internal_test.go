package conns

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever happens, no more is dialled than jobs wait, nothing is dialled for no
// job, one that waits always gets a dial, and every failure is reported at most once.
func TestDialsFollowTheDemand(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s spares
		now, idle, failures, reported := time.Now(), 0, 0, 0
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, int(time.Second)).Draw(t, "pass")))
			d := Demand{Jobs: rapid.IntRange(0, 50).Draw(t, "jobs"), Every: time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "every"))}
			switch rapid.SampledFrom([]string{"check", "wait", "lack", "take", "dialed", "failed", "put"}).Draw(t, "step") {
			case "wait":
				from := time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "from"))
				before := s.target
				s.waited(from, from+time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "wait")), d)
				if s.target < before || s.target > max(before, d.Jobs) {
					t.Fatalf("a wait moved the target from %d to %d with %d jobs", before, s.target, d.Jobs)
				}
			case "lack":
				before := s.target
				d.Lacked = rapid.IntRange(0, 100).Draw(t, "lacked")
				s.lacked(d)
				if s.target < before || s.target > max(before, d.Jobs) || s.target < min(d.Lacked, d.Jobs) {
					t.Fatalf("%d jobs of %d without a connection moved the target from %d to %d", d.Lacked, d.Jobs, before, s.target)
				}
			case "take":
				if idle > 0 {
					idle--
					s.took(idle, now)
				}
			case "dialed":
				if s.dialing > 0 {
					s.dialed(nil, now)
					idle++
				}
			case "failed":
				if s.dialing > 0 {
					s.dialed(errors.New("refused"), now)
					failures++
				}
			case "put":
				idle++
			}
			if idle == 0 && s.failure(now) != nil {
				reported++
			}
			busy := s.dialing + idle
			n := s.missing(d, idle)
			if n < 0 || n > 0 && busy+n > d.Jobs || n == 0 && busy == 0 && d.Jobs > 0 {
				t.Fatalf("%d dials begin for %d jobs, with %d idle and %d on their way", n, d.Jobs, idle, s.dialing)
			}
			s.dialing += n
			if reported > failures || s.target < 0 {
				t.Fatalf("%d failures, reported %d times; target %d", failures, reported, s.target)
			}
		}
	})
}

// Connections that nobody needs are not wanted for long.
func TestUnusedConnectionsLowerTheTarget(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := spares{target: 90}
	for range 600 { // a minute of takes that leave 40
		s.took(40, now)
		now = now.Add(100 * time.Millisecond)
	}
	if s.target != 0 {
		t.Errorf("got a target of %d after a minute with 40 to spare, want 0", s.target)
	}
}

// A failure of long ago answers for no job.
func TestAnOldFailureAnswersNoCall(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := spares{dialing: 2}
	s.dialed(errors.New("refused"), now)
	s.dialed(errors.New("refused"), now)
	if s.failure(now) == nil || s.failure(now.Add(time.Second)) != nil {
		t.Error("want one failure reported at once, and none a second later")
	}
}
