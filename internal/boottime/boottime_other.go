//go:build !linux

package boottime

import "time"

// Suspended returns 0: suspensions are not seen on this system.
func Suspended() time.Duration { return 0 }

// Last returns 0 too.
func Last() time.Duration { return 0 }
