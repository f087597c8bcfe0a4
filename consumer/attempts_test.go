package consumer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dispatcher/consumer"
)

// The attempts of a failed job go with its partition to the next owner: after a graceful end
// at once, after a crash as they were at the last commit. The commit names no job that did
// not fail, and none that is settled.
func TestTheAttemptsOfAFailedJobChangeHands(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		for _, order := range []consumer.Order{consumer.OrderNone, consumer.OrderKey, consumer.OrderPartition} {
			t.Run(fmt.Sprintf("%s, crash %v", order, crash), func(t *testing.T) { attemptsChangeHands(t, order, crash) })
		}
	}
}

func attemptsChangeHands(t *testing.T, order consumer.Order, crash bool) {
	t.Helper()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", keyed("a", "a1"), keyed("b", "b1"), keyed("a", "a2"))
		o := w.options()
		o.Order = order
		asleep := consumer.Attempts{Calls: 5, Failures: 3}
		first := w.start(o, func(d *consumer.Delivery) {
			if string(d.Job.Value) == "a1" {
				go func() {
					time.Sleep(2 * time.Second) // there is nothing else to commit then
					d.Sleep(consumer.SleepOptions{Until: time.Now().Add(time.Hour), Failed: true, Attempts: asleep})
				}()
				return
			}
			releasedLater(d)
		})
		w.until("a1 sleeps", func() bool { return first.c.Status().Lanes[0].Asleep == 1 })
		time.Sleep(time.Second) // a commit
		if _, metadata := w.committed("jobs", 0); !strings.HasPrefix(metadata, "v3;") {
			t.Errorf("got metadata %q before the end, want v3", metadata)
		}
		var lost *kfake.FaultHandle
		if crash {
			lost = w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.IllegalGeneration, Count: -1})
		}
		w.ok(first.end())
		if crash {
			lost.Remove()
		}
		attempts := map[string]consumer.Attempts{}
		second := w.start(o, func(d *consumer.Delivery) {
			attempts[string(d.Job.Value)] = d.Attempts()
			d.Done(consumer.Outcome{})
		})
		w.until("all offsets are committed", func() bool { got, _ := w.committed("jobs", 0); return got == 3 })
		w.ok(second.end())
		want := map[string]consumer.Attempts{"a1": asleep, "b1": {}, "a2": {}}
		for value, want := range want {
			if attempts[value] != want {
				t.Errorf("%s: got attempts %+v, want %+v", value, attempts[value], want)
			}
		}
		if _, metadata := w.committed("jobs", 0); len(metadata) != onlyID {
			t.Errorf("got metadata %q when all is settled, want the topic's id alone", metadata)
		}
	})
}

// A broker that takes less metadata than others gets the bitmap without the attempts.
func TestTheBitmapOutranksTheAttempts(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 200)...)
		n := w.start(w.options(), func(d *consumer.Delivery) {
			if d.Job.Offset%2 == 1 {
				d.Done(consumer.Outcome{})
				return
			}
			calls := int(d.Job.Offset) + 1
			d.Sleep(consumer.SleepOptions{Until: time.Now().Add(time.Hour), Failed: true, Attempts: consumer.Attempts{Calls: calls, Failures: calls}})
		})
		w.until("half of them sleep", func() bool { return n.c.Status().Lanes[0].Asleep == 100 })
		time.Sleep(time.Second) // a commit
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.OffsetMetadataTooLarge, Count: 1})
		w.produce("jobs", numbered(200, 202)...)
		w.until("one more is done", func() bool { return len(n.values()) == 202 })
		time.Sleep(time.Second) // a commit
		if _, metadata := w.committed("jobs", 0); !strings.HasPrefix(metadata, "v2;") || len(metadata) <= onlyID {
			t.Errorf("got metadata %q, want the bitmap", metadata)
		}
		w.ok(n.end())
		next := w.start(w.options(), settled)
		w.until("the others are seen", func() bool { return len(next.values()) == 101 })
		w.ok(next.end())
	})
}

// A failure that is attributed to a job later counts, though its worker does not know of it
// yet. After a job is settled it has no effect.
func TestAnAttributedFailureIsNotOverwritten(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 2)...)
		n := w.start(w.options(), nil)
		held := n.holding(2)
		held[0].SetAttempts(consumer.Attempts{Calls: 1})
		held[0].CountFailure()
		held[0].Sleep(consumer.SleepOptions{Until: time.Now().Add(time.Hour), Attempts: consumer.Attempts{Calls: 2}})
		held[1].Done(consumer.Outcome{})
		held[1].CountFailure()
		w.ok(n.end())
		next := w.start(w.options(), nil)
		d := next.holding(1)[0]
		if got := d.Attempts(); got != (consumer.Attempts{Calls: 2, Failures: 1}) || d.Job.Offset != 0 {
			t.Errorf("offset %d: got attempts %+v, want 2 calls and 1 failure", d.Job.Offset, got)
		}
		d.Done(consumer.Outcome{})
		w.ok(next.end())
	})
}
