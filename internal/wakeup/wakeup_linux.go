package wakeup

import (
	"os"
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

// free holds timers that nobody needs, for the next wakeups.
var free = make(chan *timer, 64) //nolint:gochecknoglobals // timers are the same for all

// behind is how much later than the runtime's timer the kernel's ends. The runtime would find its own one not due yet, and
// wait for another millisecond.
const behind = 20 * time.Microsecond

// In wakes the runtime after d, unless it is let go before. It is to be let go.
func In(d time.Duration) Wakeup {
	var t *timer
	select {
	case t = <-free:
	default:
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err != nil {
			return Wakeup{}
		}
		t = &timer{os.NewFile(uintptr(fd), "timer"), fd} //nolint:gosec // not negative
	}
	_ = unix.TimerfdSettime(t.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d + behind))}, nil) // without it, timers are late
	return Wakeup{t}
}

// LetGo ends the wakeup, also one that was heard.
func (w Wakeup) LetGo() {
	if w.timer == nil {
		return
	}
	select {
	case free <- w.timer:
	default:
		_ = w.file.Close()
	}
}
