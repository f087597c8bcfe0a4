package provider

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Stall is a time in which this process did not run as it should: [From, To), on the
// clock of the arrivals.
type Stall struct {
	From time.Duration
	To   time.Duration
}

// stallWatch records when this process was held up.
type stallWatch struct {
	mu     sync.Mutex
	stalls []Stall // in order, apart from each other
}

// run wakes each millisecond, on its own thread, and records the gaps that are longer
// than guard.
func (w *stallWatch) run(ctx context.Context, epoch time.Time, guard time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	last := time.Since(epoch)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := time.Since(epoch)
		if now-last > guard {
			w.note(last, now, guard)
		}
		last = now
	}
}

// note adds a stall. The connections' goroutines may run a little after this one, and
// only then record the calls of the stall. So the stall lasts for another guard.
func (w *stallWatch) note(from, woke, guard time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.stalls); n > 0 && w.stalls[n-1].To >= from {
		w.stalls[n-1].To = woke + guard
		return
	}
	w.stalls = append(w.stalls, Stall{From: from, To: woke + guard})
}

// forget drops the stalls that ended before t.
func (w *stallWatch) forget(t time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalls = slices.DeleteFunc(w.stalls, func(s Stall) bool { return s.To < t })
}

func (w *stallWatch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalls = nil
}

func (w *stallWatch) all() []Stall {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.stalls)
}
