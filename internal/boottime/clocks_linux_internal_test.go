package boottime

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// simulated clocks of a host: each reading takes a while.
type simulated struct {
	now, slept, takes time.Duration
	readings          int
	lost              int // after so many readings from now on the process loses its processor for 5 ms
}

func (s *simulated) read(clock int32) time.Duration {
	s.readings++
	if s.now += s.takes; s.lost > 0 {
		if s.lost--; s.lost == 0 {
			s.now += 5 * time.Millisecond
		}
	}
	if clock == unix.CLOCK_BOOTTIME {
		return s.now + s.slept
	}
	return s.now
}

func TestASuspensionIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	s := &simulated{takes: time.Microsecond}
	c := clocks{read: s.read}
	for _, slept := range []time.Duration{0, 2 * time.Millisecond, time.Hour, time.Hour + time.Millisecond} {
		s.slept = slept
		if got := c.suspended(); got > slept || got < slept-closely {
			t.Errorf("got %v, want %v", got, slept)
		}
		s.readings = 0
		if again := c.suspended(); again > slept || again < slept-closely || s.readings != 2 {
			t.Errorf("again: got %v by %d readings, want %v by 2", again, s.readings, slept)
		}
	}
}

// Whatever lies between two readings, a process that lost its processor is not a host that was suspended.
func TestALostProcessorIsNoSuspension(t *testing.T) {
	t.Parallel()
	for lost := range 6 {
		s := &simulated{takes: time.Microsecond, slept: time.Minute}
		c := clocks{read: s.read}
		first := c.suspended()
		s.lost = lost + 1
		if got := c.suspended(); got-first > closely || first-got > closely {
			t.Errorf("lost after %d readings: got %v, want %v", lost+1, got, first)
		}
	}
}
