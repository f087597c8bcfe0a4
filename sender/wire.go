package sender

import (
	"errors"
	"net"
	"sync"
	"time"

	"dispatcher/internal/boottime"
)

// errLate is what a write gets whose permit was over.
var errLate = errors.New("the permit was over when the write began")

// tlsControl separates a request from TLS's own records, which may be written
// at any time: an alert takes 24 bytes on the wire and a key update 27, while
// the shortest request with its record takes more than this.
const tlsControl = 32

// sleptMost is by how much two readings of a host that was not suspended differ.
const sleptMost = time.Millisecond

// wire is a provider's connection below TLS. It decides at the last moment, in
// the goroutine that makes the system call, whether a call may still begin.
type wire struct {
	net.Conn
	tls   bool
	timer *time.Timer // ends the call; runs only from the first write to end

	roundTrip time.Duration // of the TCP handshake; 0: unknown

	suspended func() time.Duration // of the host; the monotonic clock stands still meanwhile

	mu   sync.Mutex // never held across a read or a write
	call call
}

// call is what the wire knows of the call at hand.
type call struct {
	armed    bool
	useBy    time.Time
	slept    time.Duration // for how long the host had been suspended when it was armed
	timeout  time.Duration
	wroteAt  time.Time // zero: no byte of it left
	late     bool      // its write was refused
	timedOut bool
}

func newWire(c net.Conn, tls bool) *wire {
	w := &wire{Conn: c, tls: tls, roundTrip: roundTrip(c), suspended: boottime.Suspended}
	w.timer = time.AfterFunc(time.Hour, w.expire)
	w.timer.Stop()
	return w
}

// arm makes the next write the beginning of a call.
func (w *wire) arm(useBy time.Time, timeout time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call = call{armed: true, useBy: useBy, timeout: timeout, slept: w.suspended()}
}

// end returns what became of the call and whether the connection outlived it.
func (w *wire) end() (done call, alive bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	done = w.call
	// A call whose write has not begun is not to begin any more.
	w.call = call{late: done.wroteAt.IsZero()}
	// Where the timer can't be stopped it closes the connection, now or soon.
	return done, !done.wroteAt.IsZero() && w.timer.Stop()
}

// Write refuses the first write of a call that comes after its use-by.
func (w *wire) Write(p []byte) (int, error) {
	first, err := w.begin(len(p))
	if err != nil {
		_ = w.Close()
		return 0, err
	}
	n, err := w.Conn.Write(p)
	if first && n == 0 {
		w.nothingLeft()
	}
	return n, err
}

func (w *wire) begin(size int) (first bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.call.late {
		return false, errLate // not even TLS's goodbye after a refusal
	}
	if !w.call.armed || w.tls && size < tlsControl {
		return false, nil
	}
	w.call.armed = false
	now := time.Now()
	if over(w.call.useBy, now) || w.sleptThrough() {
		w.call.late = true
		return false, errLate
	}
	w.call.wroteAt = now
	w.timer.Reset(w.call.timeout)
	return true, nil
}

// sleptThrough reports whether the host was suspended since the call was armed: its
// use-by looks fresh then, whatever the time is.
func (w *wire) sleptThrough() bool {
	return !w.call.useBy.IsZero() && w.suspended()-w.call.slept > sleptMost
}

func (w *wire) nothingLeft() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	w.call.wroteAt = time.Time{}
}

func (w *wire) expire() {
	w.mu.Lock()
	w.call.timedOut = true
	w.mu.Unlock()
	_ = w.Close()
}

// over: a zero use-by never is.
func over(useBy, now time.Time) bool { return !useBy.IsZero() && now.After(useBy) }
