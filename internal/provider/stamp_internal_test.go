package provider

import (
	"testing"
	"time"
)

// Where the kernel says when a call came, a stall of the judge leaves no window unjudged: a broken one is found.
func TestStallsHideNothingFromAJudgeThatKnowsTheTimes(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"the kernel says": false, "a read says": true} {
		p := New(Options{Guard: -1})
		contract := Contract{Window: time.Second, Caps: []CapFrom{{Cap: 1}}}
		for range 2 {
			p.log.add(stamp{at: 5 * time.Second, late: late}, "", 200, 0)
		}
		p.log.add(stamp{at: 9 * time.Second}, "", 200, 0)
		p.watch.note(5*time.Second, 6*time.Second, 0)
		r := p.Report(contract)
		if r.Kept != late || (r.Unjudged > 0) != late || r.HeldUp != 0.25 {
			t.Errorf("%s: got kept %v, %v unjudged, %v held up; want %v, some if that is true, and a quarter", name, r.Kept, r.Unjudged, r.HeldUp, late)
		}
		p.Reset()
		if p.log.mayBeLate() {
			t.Errorf("%s: the times of calls that are forgotten count", name)
		}
	}
}

// An age that can't be is that of a wall clock that was set: the time of the read counts then, and may be late.
func TestAWallClockThatWasSetStampsNothing(t *testing.T) {
	t.Parallel()
	for name, wall := range map[string]time.Time{
		"set back": time.Now().Add(time.Hour), "set forward": time.Now().Add(-time.Hour), "unknown": {},
	} {
		s := stamped{epoch: time.Now()}
		s.came(1, wall)
		if since := time.Since(s.epoch); !s.last.late || s.last.at < 0 || s.last.at > since {
			t.Errorf("%s: got %+v, want the time of the read, from 0 to %v", name, s.last, since)
		}
	}
}
