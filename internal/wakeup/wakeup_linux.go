package wakeup

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Wakeup wakes the runtime once. The zero value is none.
type Wakeup struct{ *timer }

// timer is a timer of the kernel, which the runtime waits for as for any other file.
type timer struct {
	file *os.File
	fd   int
}

// most is how many wakeups there are at once. A process in which more goroutines wait is awake.
const most = 64

// free holds timers that nobody needs, for the next wakeups. made is how many there are.
var (
	free = make(chan *timer, most) //nolint:gochecknoglobals // timers are the same for all
	made atomic.Int64              //nolint:gochecknoglobals // likewise
)

// behind: the kernel's timer ends so much later than the runtime's. The runtime would find its own one not due yet, and
// wait for another millisecond.
const behind = 20 * time.Microsecond

// In wakes the runtime after d. The caller frees the wakeup when it has waited.
func In(d time.Duration) Wakeup {
	t := take()
	if t == nil {
		return Wakeup{}
	}
	_ = unix.TimerfdSettime(t.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d + behind))}, nil) // without it, the runtime's timer is late
	return Wakeup{t}
}

// take returns a timer that nobody needs, or a new one; nil where there are enough, or the kernel gives none.
func take() *timer {
	select {
	case t := <-free:
		return t
	default:
	}
	if made.Add(1) > most {
		made.Add(-1)
		return nil
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		made.Add(-1)
		return nil
	}
	return &timer{os.NewFile(uintptr(fd), "timer"), fd} //nolint:gosec // not negative
}

// Free lets another wakeup have the timer. Where its time has not come, it may wake the runtime for nothing.
func (w Wakeup) Free() {
	if w.timer != nil {
		free <- w.timer // there is room for all
	}
}
