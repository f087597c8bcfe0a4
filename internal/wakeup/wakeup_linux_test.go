package wakeup

import (
	"testing"
	"time"
)

// The runtime waits for the kernel's timer: whoever reads it is woken once it has ended.
func TestTheRuntimeHearsAWakeup(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	w := In(time.Millisecond)
	defer w.Free()
	if w.timer == nil {
		t.Fatal("got no timer from the kernel")
	}
	var times [8]byte
	if n, err := w.file.Read(times[:]); n != len(times) || err != nil {
		t.Errorf("got %d bytes and %v, want %d", n, err, len(times))
	}
	if took := time.Since(begun); took < time.Millisecond {
		t.Errorf("got the wakeup after %v, want a millisecond at least", took)
	}
}

// There are so many at once, and no more. Those that were freed are used again.
func TestWakeupsAreFew(t *testing.T) { //nolint:paralleltest // it takes all there are
	for range 3 {
		all, some := make([]Wakeup, 2*most), 0
		for i := range all {
			if all[i] = In(time.Hour); all[i].timer != nil {
				some++
			}
		}
		if some != most {
			t.Errorf("got %d wakeups at once, want %d", some, most)
		}
		for _, w := range all {
			w.Free()
		}
		if got := made.Load(); got != most {
			t.Errorf("got %d timers, want %d", got, most)
		}
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
				w := set(time.Until(at))
				<-timer.C
				late += time.Since(at)
				w.Free()
			}
			b.ReportMetric(float64(late.Microseconds())/float64(b.N), "µs-late")
		})
	}
}
