package consumer_test

import (
	"slices"
	"testing"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A job that is stuck with its worker goes to the dead letters; those behind it
// and the commit point go on. Its worker counts until it lets go, and what it
// says then changes nothing.
func TestAStuckJobIsExpelled(t *testing.T) {
	t.Parallel()
	for _, late := range []func(*consumer.Delivery){
		(*consumer.Delivery).Done, (*consumer.Delivery).Release,
		func(d *consumer.Delivery) { d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent}) },
	} {
		bubble(t, 1, func(w *world) {
			w.produce("jobs", keyed("a", "a1"), keyed("a", "a2"), keyed("b", "b1"))
			o := w.options()
			o.JobTimeout = 10 * time.Second
			n := w.start(o, nil)
			held := n.holding(2)
			held[1].Done()
			time.Sleep(9 * time.Second)
			if got, _ := w.committed("jobs", 0); got != 0 || held[0].TimedOut() {
				t.Errorf("got offset %d and gone %v before the time, want 0 and false", got, held[0].TimedOut())
			}
			n.holding(1)[0].Done() // a2
			w.until("all is committed", func() bool { got, _ := w.committed("jobs", 0); return got == 3 })
			if got := n.c.Status().InFlight; got != 1 || !held[0].TimedOut() {
				t.Errorf("got %d in hand and gone %v, want 1 and true", got, held[0].TimedOut())
			}
			late(held[0])
			late(held[0])
			if got := n.c.Status().InFlight; got != 0 {
				t.Errorf("got %d in hand after the worker let go, want 0", got)
			}
			w.ok(n.end())
			letters := w.letters("jobs")
			if len(letters) != 1 || headerMap(letters[0])["x-error-class"] != "job_timeout" || !slices.Equal(n.values(), []string{"a1", "b1", "a2"}) {
				t.Errorf("handed out %v, letters %v", n.values(), letters)
			}
		})
	}
}

// Where there are tiers it comes back from one, in any order.
func TestAStuckJobComesBackFromATier(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *world) {
		w.produce("jobs", keyed("a", "a1"))
		o := withTiers(w.options(), consumer.OrderPartition, time.Second, 5*time.Second, time.Minute)
		o.JobTimeout = 10 * time.Second
		n := w.start(o, nil)
		first := n.holding(1)[0]
		first.SetAttempts(consumer.Attempts{Calls: 7, Failures: 4})
		begin := time.Now()
		second := n.holding(1)[0]
		if took := time.Since(begin); took < 15*time.Second || took > 16*time.Second || second.Job.ID != first.Job.ID {
			t.Errorf("job %s came back as %s after %v, want 15s", first.Job.ID, second.Job.ID, took)
		}
		if got := second.Attempts(); got != (consumer.Attempts{Calls: 7, Failures: 4}) {
			t.Errorf("got past %+v, want what the worker had said", got)
		}
		first.Release()
		second.Done()
		w.ok(n.end())
		if got, _ := w.committed("jobs.retry.5s", 0); got != 1 {
			t.Errorf("got offset %d in the tier, want 1", got)
		}
	})
}

// A worker that is about to bury its job is not stuck.
func TestAJobThatIsBeingBuriedIsNotExpelled(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *world) {
		w.produce("jobs", keyed("a", "a1"))
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.dlq", Err: kerr.NotLeaderForPartition, Count: -1})
		o := w.options()
		o.JobTimeout = 5 * time.Second
		n := w.start(o, func(d *consumer.Delivery) { go d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent}) })
		time.Sleep(20 * time.Second)
		fault.Remove()
		w.until("it is settled", func() bool { got, _ := w.committed("jobs", 0); return got == 1 })
		w.ok(n.end())
		if letters := w.letters("jobs"); len(letters) != 1 || headerMap(letters[0])["x-error-class"] != "permanent" {
			t.Errorf("got letters %v, want the worker's one", letters)
		}
	})
}

// At a stop a stuck job is waited for no longer than any other, and stays open if
// its letter was not written.
func TestADrainWithAStuckJob(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *world) {
		w.produce("jobs", keyed("a", "a1"))
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.dlq", Err: kerr.NotLeaderForPartition, Count: -1})
		o := w.options()
		o.JobTimeout = 2 * time.Second
		n := w.start(o, nil)
		held := n.holding(1)
		time.Sleep(5 * time.Second)
		begin := time.Now()
		w.ok(n.end())
		if took := time.Since(begin); took > o.Drain+9*time.Second {
			t.Errorf("the end took %v", took)
		}
		held[0].Done()
		if got, _ := w.committed("jobs", 0); got != 0 || n.c.Status().InFlight != 0 {
			t.Errorf("got offset %d and %d in hand, want 0 and 0", got, n.c.Status().InFlight)
		}
	})
}

// A job whose result can't be written was answered: it is not stuck with its
// worker, and is not sent again for that. What is said of an expelled one makes
// no second result.
func TestAJobThatWaitsForItsResultIsNotExpelled(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *world) {
		w.produce("jobs", keyed("a", "slow"), keyed("b", "stuck"))
		o := w.options()
		o.Results, o.JobTimeout = true, 5*time.Second
		n := w.start(o, nil)
		held := n.holding(2)
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.results", Err: kerr.NotLeaderForPartition, Count: -1})
		n.c.Results().Done(held[0], consumer.Outcome{Attempts: 1})
		time.Sleep(20 * time.Second)
		fault.Remove()
		w.until("both are settled", func() bool { got, _ := w.committed("jobs", 0); return got == 2 })
		n.c.Results().Done(held[1], consumer.Outcome{Attempts: 1})
		time.Sleep(time.Second)
		w.ok(n.end())
		var results []string
		for _, m := range w.records("jobs.results") {
			results = append(results, string(m.Key))
		}
		slices.Sort(results)
		letters := w.letters("jobs")
		if !slices.Equal(results, []string{"a", "b"}) || len(letters) != 1 || string(letters[0].Value) != "stuck" {
			t.Errorf("got results of %v and letters %v, want one result each and the letter of the stuck one", results, letters)
		}
	})
}

// A job that was answered, and waits for that to be written down, is not stuck.
func TestAJobThatWasAnsweredIsNotExpelled(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *world) {
		w.produce("jobs", keyed("a", "a1"))
		o := w.options()
		o.JobTimeout = 5 * time.Second
		n := w.start(o, nil)
		held := n.holding(1)[0]
		held.Answered()
		time.Sleep(20 * time.Second)
		if got, _ := w.committed("jobs", 0); got > 0 || held.TimedOut() || n.c.Status().InFlight != 1 {
			t.Errorf("got offset %d, gone %v and %d in hand, want it to wait", got, held.TimedOut(), n.c.Status().InFlight)
		}
		held.Done()
		w.until("it is settled", func() bool { got, _ := w.committed("jobs", 0); return got == 1 })
		w.ok(n.end())
		if letters := w.letters("jobs"); len(letters) != 0 {
			t.Errorf("got letters %v, want none", letters)
		}
	})
}
