package throttle

import (
	"fmt"
	"testing"
	"time"

	"dispatcher/throttle/internal/clock"
)

// slewed reads a clock that runs at a rate from begin on, and returns when that was
// noticed; 0: not at all.
func slewed(ppm int64, every, length time.Duration) (noticed time.Duration) {
	const begin = 10 * time.Second
	c := clock.Clock{Origin: time.Unix(5000, 0)}
	for at := time.Duration(0); at < begin+length; at += every {
		there := at + max(0, at-begin)*time.Duration(ppm)/1_000_000 + time.Hour
		r := clock.Reading{Asked: c.Origin.Add(at), Answered: c.Origin.Add(at + 300*time.Microsecond), Now: there.Microseconds(), Epoch: 1}
		if c.Observe(r) {
			return at - begin
		}
	}
	return 0
}

// A slew of 0.2 % or more is noticed within a second, however often the clock is
// read; what NTP may do at any time is not taken for one.
func TestClockSeesSlews(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
		for _, ppm := range []int64{2_000, -2_000, 5_000, 83_333, -83_333} {
			t.Run(fmt.Sprintf("%d ppm read each %v", ppm, every), func(t *testing.T) {
				t.Parallel()
				if got := slewed(ppm, every, 5*time.Second); got <= 0 || got > time.Second {
					t.Errorf("noticed after %v, want within a second", got)
				}
			})
		}
		for _, ppm := range []int64{0, 100, 500, -500} {
			if got := slewed(ppm, every, time.Minute); got != 0 {
				t.Errorf("%d ppm, read each %v, counted as a step after %v", ppm, every, got)
			}
		}
	}
}

// A node that polls seldom sees a slew with its next reading, and takes what NTP
// does for none.
func TestClockOfAnIdleNodeSeesSlews(t *testing.T) {
	t.Parallel()
	if got := slewed(2_000, idleEvery, time.Minute); got <= 0 || got > 2*idleEvery {
		t.Errorf("noticed after %v, want within two polls", got)
	}
	if got := slewed(500, idleEvery, 10*time.Minute); got != 0 {
		t.Errorf("500 ppm counted as a step after %v", got)
	}
}

// While Redis's clock is slewed by chrony's most, the fleet does not pass the cap:
// it stands still again and again.
func TestASlewDoesNotPassTheCap(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, ppm := range []int64{2_000, 20_000, 83_333} {
		f := newFleet(t, embeddedRedis(t), asWritten, diceOf(1), 2, contract(300))
		f.calling = atOnce
		f.poll()
		f.pass(3_000_000)
		play := func(steps int, ppm int64) {
			for i := range steps {
				f.reserve(f.nodes[i%2], 6, 100, 100, false)
				f.pass(10_000)
				f.shift(10_200 * ppm / 1_000_000)
			}
		}
		play(200, 0)
		before := len(f.calls)
		play(400, ppm)
		if over := f.over(time.Second); over != "" {
			t.Errorf("a slew of %d ppm: %s", ppm, over)
		}
		t.Logf("%d ppm: %d calls in 4 s of the slew, %d in 2 s before it", ppm, len(f.calls)-before, before)
	}
}
