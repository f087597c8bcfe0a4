package conns

import (
	"errors"
	"net"
	"sync"
	"time"

	"dispatcher/internal/boottime"
)

var errLate = errors.New("the permit was over when the write began")

// tlsControl separates a request from TLS's own records, which may be written at any
// time: an alert takes 24 bytes and a key update 27, while the shortest request with
// its record takes more than this.
const tlsControl = 32

// rawConn is a connection below TLS. It decides at the last moment, in the goroutine
// that makes the system call, whether a call may still begin.
type rawConn struct {
	net.Conn

	tls       bool
	timer     *time.Timer          // closes the connection; runs only from the first write to end
	roundTrip time.Duration        // of the TCP handshake; 0: not known
	suspended func() time.Duration // of the host

	mu   sync.Mutex // never held across a read or a write
	call callState
}

// Call is the outcome of one call on a connection.
type Call struct {
	WroteAt  time.Time // when the first byte was written; zero: no byte left
	Late     bool      // the use-by had passed, and the write was refused
	TimedOut bool
}

type callState struct {
	Call

	armed   bool // the next write begins the call
	useBy   boottime.Deadline
	timeout time.Duration
}

func newRawConn(c net.Conn, tls bool) *rawConn {
	r := &rawConn{Conn: c, tls: tls, roundTrip: handshakeTime(c), suspended: boottime.Suspended}
	r.timer = time.AfterFunc(time.Hour, r.expire)
	r.timer.Stop()
	return r
}

// arm makes the next write the beginning of a call.
func (r *rawConn) arm(useBy boottime.Deadline, timeout time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.call = callState{armed: true, useBy: useBy, timeout: timeout}
}

// end returns the outcome of the call and whether the connection outlived it.
func (r *rawConn) end() (done Call, alive bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	done = r.call.Call
	// A call whose write has not begun must not begin any more.
	r.call = callState{Call: Call{Late: done.WroteAt.IsZero()}}
	// If the timer can't be stopped, it closes the connection, now or soon.
	return done, !done.WroteAt.IsZero() && r.timer.Stop()
}

// Write refuses the first write of a call that comes after its use-by.
func (r *rawConn) Write(p []byte) (int, error) {
	first, err := r.begin(len(p))
	if err != nil {
		_ = r.Close()
		return 0, err
	}
	n, err := r.Conn.Write(p)
	if first && n == 0 {
		r.noByteLeft()
	}
	return n, err
}

func (r *rawConn) begin(size int) (first bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.call.Late {
		return false, errLate // not even TLS's close alert after a refusal
	}
	if !r.call.armed || r.tls && size < tlsControl {
		return false, nil
	}
	r.call.armed = false
	now := time.Now()
	if r.call.useBy.Over(now, r.suspended) {
		r.call.Late = true
		return false, errLate
	}
	r.call.WroteAt = now
	r.timer.Reset(r.call.timeout)
	return true, nil
}

func (r *rawConn) noByteLeft() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer.Stop()
	r.call.WroteAt = time.Time{}
}

func (r *rawConn) expire() {
	r.mu.Lock()
	r.call.TimedOut = true
	r.mu.Unlock()
	_ = r.Close()
}
