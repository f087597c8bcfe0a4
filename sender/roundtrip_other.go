//go:build !linux

package sender

import (
	"net"
	"time"
)

// roundTrip returns 0: this system is not asked.
func roundTrip(net.Conn) time.Duration { return 0 }
