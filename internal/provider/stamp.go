package provider

import (
	"net"
	"time"
)

// stamp is when bytes came.
type stamp struct {
	at   time.Duration // since the provider's epoch
	late bool          // it is the time of the read, which a process that is held up makes too late
}

// stamped reads a connection, and keeps when the bytes of the last read came.
type stamped struct {
	net.Conn

	epoch  time.Time
	kernel *kernelReader // nil: the kernel does not say when bytes came
	last   stamp         // owned by the connection's goroutine
}

func newStamped(c net.Conn, epoch time.Time) *stamped {
	return &stamped{Conn: c, epoch: epoch, kernel: newKernelReader(c)}
}

func (s *stamped) Read(p []byte) (int, error) {
	if s.kernel == nil {
		n, err := s.Conn.Read(p)
		s.came(n, time.Time{})
		return n, err
	}
	n, came, err := s.kernel.read(p)
	s.came(n, came)
	return n, err
}

// maxAge is the longest time that bytes may have waited for the read. Another age is that of a wall clock that was set meanwhile.
const maxAge = 10 * time.Second

// came keeps when n bytes came by the wall clock; zero: nobody knows.
func (s *stamped) came(n int, wall time.Time) {
	if n == 0 {
		return
	}
	now := time.Now()
	s.last = stamp{at: now.Sub(s.epoch), late: true}
	if age := now.Round(0).Sub(wall); age >= 0 && age <= maxAge {
		s.last = stamp{at: s.last.at - age}
	}
}
