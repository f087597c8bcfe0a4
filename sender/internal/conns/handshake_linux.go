package conns

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// handshakeTime returns the round trip of a connection's TCP handshake, as the kernel
// measured it. It must be read before anything is written: later readings
// (tcpi_rtt, tcpi_rttvar) also hold the time for which the provider's kernel
// delays its acknowledgements, up to 40 ms. 0: not known.
func handshakeTime(c net.Conn) (d time.Duration) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			d = time.Duration(info.Rtt) * time.Microsecond
		}
	}) // a connection that is closed already: d stays 0
	return d
}
