package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// closely is how close together the readings of the two clocks must be. A process that
// lost its processor between them reads again.
const closely = 200 * time.Microsecond

// start is any time: Go's monotonic clock, which stands still in a suspension, is read without a system call.
var start = time.Now() //nolint:gochecknoglobals // a constant

// Suspended returns for how long the host has been suspended since it booted.
// Only differences mean something.
func Suspended() time.Duration {
	var least time.Duration
	for range 3 {
		before, boot := time.Since(start), sinceBoot()
		after := time.Since(start)
		if least = boot - after; after-before < closely {
			break
		}
	}
	return least
}

// sinceBoot includes the time in which the host was suspended.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0 // no such clock: see Suspended
	}
	return time.Duration(t.Nano())
}
