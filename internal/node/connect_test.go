package node

import (
	"context"
	"testing"
	"time"

	"dispatcher/sender"
)

func (w *world) sender(far *faraway) *sender.Sender {
	w.Helper()
	h, err := sender.New(sender.Options{Config: sender.Config{URL: "http://provider.test/send"}, Dial: far.DialContext})
	w.must(err)
	return h
}

// An outage in which no connection can be opened is seen as one: it opens the
// breaker, which lets one dial through at a time, and dead-letters nothing. When it
// is over, every job is sent once.
func TestAnOutageOfDialsIsSeen(t *testing.T) {
	t.Parallel()
	for name, dial := range map[string]time.Duration{"refused at once": 0, "after a while": 500 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const jobs = 300
			inWorld(t, 100, func(w *world) {
				far := &faraway{dial: dial, latency: 10 * time.Millisecond}
				far.down.Store(true)
				h := w.sender(far)
				defer h.Close()
				w.writeMany(jobs)
				go func() {
					time.Sleep(10 * time.Second)
					if w.crew.gate.isUp() {
						t.Error("the breaker is closed, and nothing answers")
					}
					before := far.dialed()
					time.Sleep(20 * time.Second)
					// A probe a second, which takes as long as the dial; the line's own is one more.
					if n := far.dialed() - before; n < 10 || n > 40 {
						t.Errorf("got %d dials in 20 s of an outage, want one probe at a time", n)
					}
					far.down.Store(false)
				}()
				w.run(h, 64, jobs)
				if len(far.calls) != jobs || w.dead() != 0 {
					t.Errorf("got %d calls and %d dead letters, want %d and none", len(far.calls), w.dead(), jobs)
				}
			})
		})
	}
}

// A node without jobs opens no connection, and one with few opens few.
func TestNoMoreConnectionsThanJobs(t *testing.T) {
	t.Parallel()
	for _, jobs := range []int{1, 3} {
		inWorld(t, 400, func(w *world) {
			far := &faraway{dial: 200 * time.Millisecond, latency: 10 * time.Millisecond}
			h := w.sender(far)
			defer h.Close()
			w.writeMany(jobs)
			w.run(h, 64, jobs)
			time.Sleep(10 * time.Second)
			if n := far.dialed(); n > jobs {
				t.Errorf("got %d connections for %d jobs", n, jobs)
			}
		})
	}
}

// A job whose connection is not at hand leaves its place at the wire before it
// opens one.
func TestDiallingTakesNoPlaceAtTheWire(t *testing.T) {
	t.Parallel()
	inWorld(t, 10, func(w *world) {
		w.writeMany(1)
		d, s := w.take(), w.ahead()
		w.handle(callerFunc(func(ctx context.Context, permit sender.Permit) sender.Result {
			if len(w.wire) != 0 {
				t.Errorf("got %d places taken while a connection is opened, want none", len(w.wire))
			}
			_, err := permit(ctx)
			w.must(err)
			return sender.Result{Kind: sender.Accepted, WroteAt: time.Now()}
		}), d, s)
		w.until("it is settled", func() bool { return w.settled() == 1 })
	})
}
