package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// closely is how close together the readings of the two clocks must be. A process that
// lost its processor between them reads again.
const closely = 200 * time.Microsecond

// Suspended returns for how long the host has been suspended since it booted.
// Only differences mean something.
func Suspended() time.Duration {
	var least time.Duration
	for range 3 {
		before, boot, after := read(unix.CLOCK_MONOTONIC), read(unix.CLOCK_BOOTTIME), read(unix.CLOCK_MONOTONIC)
		if least = boot - after; after-before < closely {
			break
		}
	}
	return least
}

func read(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0 // no such clock: no suspension is seen
	}
	return time.Duration(t.Nano())
}
