package wakeup

import (
	"os"
	"testing"
	"time"
)

// The runtime waits for the kernel's timer: whoever reads it is woken once it has ended.
func TestTheRuntimeHearsAWakeup(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	a := In(time.Millisecond)
	defer a.LetGo()
	if a.timer == nil {
		t.Fatal("got no timer from the kernel")
	}
	var times [8]byte
	if n, err := a.file.Read(times[:]); n != len(times) || err != nil {
		t.Errorf("got %d bytes and %v, want %d", n, err, len(times))
	}
	if took := time.Since(begun); took < time.Millisecond {
		t.Errorf("got the wakeup after %v, want a millisecond at least", took)
	}
}

// A wakeup that was let go is used again, and those that nobody needs are closed: many at once leave few files.
func TestWakeupsLeaveFewFiles(t *testing.T) { //nolint:paralleltest // it counts the files of the process
	files := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before := files()
	for range 3 {
		all := make([]Wakeup, 4*cap(free))
		for i := range all {
			all[i] = In(time.Hour)
		}
		for _, a := range all {
			a.LetGo()
		}
	}
	if more := files() - before; more > cap(free)+8 { // the runtime opens some
		t.Errorf("got %d files more, want %d for wakeups at most", more, cap(free))
	}
}

// How late a timer is in a process that does nothing else: with a wakeup, and without.
func BenchmarkLate(b *testing.B) {
	for name, set := range map[string]func(time.Duration) Wakeup{"with": In, "without": func(time.Duration) Wakeup { return Wakeup{} }} {
		b.Run(name, func(b *testing.B) {
			var late time.Duration
			for range b.N {
				at := time.Now().Add(2500 * time.Microsecond)
				timer := time.NewTimer(time.Until(at))
				a := set(time.Until(at))
				<-timer.C
				late += time.Since(at)
				a.LetGo()
			}
			b.ReportMetric(float64(late.Microseconds())/float64(b.N), "µs-late")
		})
	}
}
