package boottime

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// closely is how close together the readings of the two clocks must be. A process that
// lost its processor between them reads again.
const closely = 200 * time.Microsecond

// Suspended returns for how long the host has been suspended since it booted.
// Only differences mean something.
func Suspended() time.Duration { return host.suspended() }

// Last returns what [Suspended] returned last, to whomever.
func Last() time.Duration { return time.Duration(host.known.Load()) }

var host = clocks{read: read} //nolint:gochecknoglobals // there is one host, and all that ask share what was read last

// clocks are the monotonic clock and the boot clock of a host.
type clocks struct {
	read  func(clock int32) time.Duration
	known atomic.Int64 // for how long the host had been suspended, in ns, when that was read last
}

// suspended takes two system calls where the host was not suspended since the last reading: it has been suspended for
// no shorter than that, and for no longer than the boot clock is ahead of an earlier reading of the other one.
func (c *clocks) suspended() time.Duration {
	known := time.Duration(c.known.Load())
	before := c.read(unix.CLOCK_MONOTONIC)
	if ahead := c.read(unix.CLOCK_BOOTTIME) - before; ahead < known+closely {
		return known
	}
	known = c.exactly()
	c.known.Store(int64(known))
	return known
}

func (c *clocks) exactly() (least time.Duration) {
	for range 3 {
		before, boot, after := c.read(unix.CLOCK_MONOTONIC), c.read(unix.CLOCK_BOOTTIME), c.read(unix.CLOCK_MONOTONIC)
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
