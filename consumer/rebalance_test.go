package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer"
)

// onlyID is the length of a commit's metadata that holds the topic's id and no bitmap.
const onlyID = len("v2;") + 22

// One stuck job costs neither its partition nor repeats after a restart.
func TestOneStuckJobCostsNoRepeats(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 2000)...)
		stuck := func(d *consumer.Delivery) {
			if string(d.Job.Value) == "50" {
				releasedLater(d)
				return
			}
			d.Done(consumer.Outcome{})
		}
		n := w.start(w.options(), stuck)
		w.until("all seen", func() bool { return len(n.values()) == 2000 })
		w.ok(n.end())
		if offset, metadata := w.committed("jobs", 0); offset != 50 || !strings.HasPrefix(metadata, "v2;") || len(metadata) <= onlyID {
			t.Errorf("got offset %d and metadata %q, want 50, the topic's id and a bitmap", offset, metadata)
		}
		w.produce("jobs", numbered(2000, 2010)...)
		next := w.start(w.options(), settled)
		w.until("the rest is seen", func() bool { return len(next.values()) >= 11 })
		w.ok(next.end())
		if got, want := strings.Join(next.values(), " "), "50 2000 2001 2002 2003 2004 2005 2006 2007 2008 2009"; got != want {
			t.Errorf("after the restart: got %s, want %s", got, want)
		}
		if offset, metadata := w.committed("jobs", 0); offset != 2010 || !strings.HasPrefix(metadata, "v2;") || len(metadata) != onlyID {
			t.Errorf("got offset %d and metadata %q, want 2010, the topic's id and an empty bitmap", offset, metadata)
		}
	})
}

// With one job stuck, fetching stops where the offset tracker's window ends, and goes on when
// the window moves.
func TestTheWindowIsBounded(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 20_000)...)
		var first *consumer.Delivery
		n := w.start(w.options(), func(d *consumer.Delivery) {
			if d.Job.Offset == 0 {
				first = d
				return
			}
			d.Done(consumer.Outcome{})
		})
		w.until("the window is full", func() bool { return len(n.values()) >= 8192 })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := len(n.values()); got != 8192 {
			t.Errorf("got %d jobs handed out, want 8192", got)
		}
		first.Done(consumer.Outcome{})
		w.until("all seen", func() bool { return len(n.values()) == 20_000 })
		w.ok(n.end())
	})
}

// A second member joins while calls are in flight: they end, waiting jobs are released, and
// none is sent twice.
func TestRebalanceWhileSending(t *testing.T) {
	t.Parallel()
	bubble(t, 4, func(w *fleet) {
		w.produce("jobs", numbered(0, 2000)...)
		o := w.options()
		o.Workers = 50
		slow := func(d *consumer.Delivery) {
			// In flight at once: the stop of the assignment doesn't touch it.
			go func() { time.Sleep(100 * time.Millisecond); d.Done(consumer.Outcome{}) }()
		}
		a := w.start(o, slow)
		w.until("the first one works", func() bool { return len(a.values()) > 200 })
		joined := time.Now()
		b := w.start(o, slow)
		w.until("the second one works", func() bool { return len(b.values()) > 0 })
		if took := time.Since(joined); took > 3*time.Second {
			t.Errorf("the second member worked after %v, want less than 3s", took)
		}
		w.until("all seen", func() bool { set, _ := sortedSet(a.values(), b.values()); return len(set) == 2000 })
		w.ok(a.end())
		w.ok(b.end())
		if set, repeats := sortedSet(a.values(), b.values()); repeats != 0 || len(set) != 2000 {
			t.Errorf("got %d jobs and %d repeats, want 2000 and 0", len(set), repeats)
		}
	})
}

// On a revoke, the context of a job that waits ends at once, with the cause.
func TestRevokeReachesWaiters(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		w.produce("jobs", numbered(0, 100)...)
		o := w.options()
		o.Workers = 20
		causes := make(chan error, 100)
		a := w.start(o, func(d *consumer.Delivery) {
			go func() { <-d.Context().Done(); causes <- context.Cause(d.Context()); d.Release() }()
		})
		w.until("in flight", func() bool { return a.c.Status().InFlight == 20 })
		b := w.start(o, settled)
		if err := <-causes; !errors.Is(err, consumer.ErrRevoked) {
			t.Errorf("got cause %v, want ErrRevoked", err)
		}
		w.until("the second one works", func() bool { return len(b.values()) > 0 })
		for drained := false; !drained; {
			select {
			case err := <-causes:
				if !errors.Is(err, consumer.ErrRevoked) {
					t.Errorf("got cause %v, want ErrRevoked", err)
				}
			default:
				drained = true
			}
		}
		w.ok(a.end())
		w.until("the second one sees all", func() bool { set, _ := sortedSet(b.values()); return len(set) == 100 })
		if err := <-causes; !errors.Is(err, consumer.ErrStopped) {
			t.Errorf("got cause %v, want ErrStopped", err)
		}
		w.ok(b.end())
	})
}

// Behind the end of an assignment there is a time for jobs that have a slot.
func TestRevokeLeavesJobsTheTimeOfTheirSlots(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 2)...)
		o := w.options()
		o.SlotTime = 200 * time.Millisecond
		n := w.start(o, nil)
		held := n.holding(2)
		var begun, after time.Time
		stopped := make(chan error)
		go func() { stopped <- n.end() }()
		<-held[0].Context().Done()
		begun = time.Now()
		held[0].Done(consumer.Outcome{})
		<-held[1].Calls().Done()
		after = time.Now()
		if got := after.Sub(begun); got != o.SlotTime {
			t.Errorf("got calls that end after %v, want %v", got, o.SlotTime)
		}
		if err := context.Cause(held[1].Calls()); !errors.Is(err, consumer.ErrStopped) {
			t.Errorf("got cause %v, want ErrStopped", err)
		}
		held[1].Done(consumer.Outcome{})
		w.ok(<-stopped)
		if offset, _ := w.committed("jobs", 0); offset != 2 {
			t.Errorf("got offset %d committed, want 2", offset)
		}
	})
}

// The time for slots is over when no job is in flight any more.
func TestADrainWithoutCallsDoesNotWaitForSlots(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 2)...)
		o := w.options()
		o.SlotTime = 5 * time.Second
		n := w.start(o, settled)
		w.until("all are settled", func() bool { return len(n.values()) == 2 })
		begun := time.Now()
		w.ok(n.end())
		if took := time.Since(begun); took > time.Second {
			t.Errorf("got a stop that took %v, want no wait", took)
		}
	})
}

// A call that outlasts the drain belongs to an assignment that is over. It must not complete
// the offset in the next one's tracker: the job is handed out again.
func TestNoOffsetIsCompletedAfterARevoke(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 10)...)
		o := w.options()
		o.Drain = 2 * time.Second
		a := w.start(o, nil)
		held := a.holding(10)
		for _, d := range held[1:] {
			d.Done(consumer.Outcome{})
		}
		stuck := held[0]
		b := w.start(o, nil) // the group changes; one of the two gets the partition
		<-stuck.Context().Done()
		w.until("the job is handed out again", func() bool { return len(a.values()) == 11 || len(b.values()) == 1 })
		stuck.Done(consumer.Outcome{}) // late
		time.Sleep(time.Second)
		if offset, _ := w.committed("jobs", 0); offset != 0 {
			t.Errorf("got offset %d committed after a late Done, want 0", offset)
		}
		go a.settleHeld()
		go b.settleHeld()
		w.until("the new owner's offsets are committed", func() bool { offset, _ := w.committed("jobs", 0); return offset == 10 })
		w.ok(a.end())
		w.ok(b.end())
		if got := len(a.values()) + len(b.values()); got != 11 {
			t.Errorf("got %d jobs handed out, want the 10 and one repeat", got)
		}
	})
}

// SIGTERM with calls in flight: they are awaited and committed.
func TestStopAwaitsCalls(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 10)...)
		n := w.start(w.options(), nil)
		held := n.holding(10)
		began := time.Now()
		n.stop()
		go func() {
			time.Sleep(5 * time.Second)
			for _, d := range held {
				d.Done(consumer.Outcome{})
			}
		}()
		w.ok(<-n.err)
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("the stop took %v, want 5s and a little", took)
		}
		if offset, _ := w.committed("jobs", 0); offset != 10 {
			t.Errorf("got offset %d committed, want 10", offset)
		}
	})
}

// A call that never ends holds the stop up for the drain and no longer.
func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 10)...)
		n := w.start(w.options(), nil)
		held := n.holding(10)
		for _, d := range held[:4] {
			d.Done(consumer.Outcome{})
		}
		began := time.Now()
		w.ok(n.end())
		if took := time.Since(began); took < 7*time.Second || took > 8*time.Second {
			t.Errorf("the stop took %v, want 7s and a little", took)
		}
		if offset, _ := w.committed("jobs", 0); offset != 4 {
			t.Errorf("got offset %d committed, want 4", offset)
		}
		held[5].Done(consumer.Outcome{}) // after the end: no effect, no panic
	})
}

// Completed offsets of a deleted topic of that name would make new jobs count as done.
func TestCompletedOffsetsBeyondTheLogAreDropped(t *testing.T) {
	t.Parallel()
	for name, metadata := range map[string]string{"bitmap": "v1;AP8/AQ", "foreign": "offset of someone else"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				w.produce("jobs", numbered(0, 10)...)
				w.commit("jobs", 0, 2, metadata)
				n := w.start(w.options(), settled)
				w.until("the rest is seen", func() bool { return len(n.values()) >= 8 })
				w.ok(n.end())
				if got, want := fmt.Sprint(n.values()), "[2 3 4 5 6 7 8 9]"; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		})
	}
}

// A committed offset beyond the end of the log, without a topic's id, belongs to another log.
func TestCommitBeyondTheLogStartsAgain(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 5)...)
		w.commit("jobs", 0, 1000, "")
		n := w.start(w.options(), settled)
		w.until("all seen", func() bool { return len(n.values()) == 5 })
		w.ok(n.end())
		if offset, _ := w.committed("jobs", 0); offset != 5 {
			t.Errorf("got offset %d committed, want 5", offset)
		}
	})
}
