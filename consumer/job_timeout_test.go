package consumer_test

import (
	"slices"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A job that is stuck with its worker goes to the dead letters; the jobs behind it and the
// committed offset go on. Its worker counts as in flight until it answers, and the answer has
// no other effect.
func TestAStuckJobTimesOut(t *testing.T) {
	t.Parallel()
	for _, late := range []func(*consumer.Delivery){
		settled, (*consumer.Delivery).Release,
		func(d *consumer.Delivery) {
			d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent}, consumer.Outcome{})
		},
	} {
		bubble(t, 1, func(w *fleet) {
			w.produce("jobs", keyed("a", "a1"), keyed("a", "a2"), keyed("b", "b1"))
			o := w.options()
			o.JobTimeout = 10 * time.Second
			n := w.start(o, nil)
			held := n.holding(2)
			held[1].Done(consumer.Outcome{})
			time.Sleep(9 * time.Second)
			if got, _ := w.committed("jobs", 0); got != 0 || held[0].TimedOut() {
				t.Errorf("got offset %d and timed out %v before the time, want 0 and false", got, held[0].TimedOut())
			}
			n.holding(1)[0].Done(consumer.Outcome{}) // a2
			w.until("all offsets are committed", func() bool { got, _ := w.committed("jobs", 0); return got == 3 })
			if got := n.c.Status().InFlight; got != 1 || !held[0].TimedOut() {
				t.Errorf("got %d in flight and timed out %v, want 1 and true", got, held[0].TimedOut())
			}
			if got := n.c.Status().Lanes[0].Waiting; got != 0 {
				t.Errorf("got %d waiting while the worker has the settled job, want 0", got)
			}
			late(held[0])
			late(held[0])
			if got := n.c.Status(); got.InFlight != 0 || got.Lanes[0].Waiting != 0 {
				t.Errorf("got %d in flight and %d waiting after the worker let go, want 0 and 0", got.InFlight, got.Lanes[0].Waiting)
			}
			w.ok(n.end())
			letters := w.letters("jobs")
			if len(letters) != 1 || headerMap(letters[0])["x-error-class"] != "job_timeout" || !slices.Equal(n.values(), []string{"a1", "b1", "a2"}) {
				t.Errorf("got %v handed out and dead letters %v, want a1, b1, a2 and one of class job_timeout", n.values(), letters)
			}
		})
	}
}

// Where there are retry topics it comes back from one, in any order.
func TestAStuckJobComesBackFromARetryTopic(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", keyed("a", "a1"))
		o := withRetryTopics(w.options(), consumer.OrderPartition, time.Second, 5*time.Second, time.Minute)
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
			t.Errorf("got attempts %+v, want those that the worker had set", got)
		}
		first.Release()
		second.Done(consumer.Outcome{})
		w.ok(n.end())
		if got, _ := w.committed("jobs.retry.5s", 0); got != 1 {
			t.Errorf("got offset %d in the retry topic, want 1", got)
		}
	})
}

// A job whose worker is writing its dead letter is not stuck.
func TestAJobThatIsBeingDeadLetteredDoesNotTimeOut(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", keyed("a", "a1"))
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.dlq", Err: kerr.NotLeaderForPartition, Count: -1})
		o := w.options()
		o.JobTimeout = 5 * time.Second
		n := w.start(o, func(d *consumer.Delivery) {
			go d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent}, consumer.Outcome{})
		})
		time.Sleep(20 * time.Second)
		fault.Remove()
		w.until("it is settled", func() bool { got, _ := w.committed("jobs", 0); return got == 1 })
		w.ok(n.end())
		if letters := w.letters("jobs"); len(letters) != 1 || headerMap(letters[0])["x-error-class"] != "permanent" {
			t.Errorf("got dead letters %v, want the worker's alone", letters)
		}
	})
}

// A stop waits for a stuck job no longer than for any other. The job stays open if its dead
// letter was not written.
func TestADrainWithAStuckJob(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
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
			t.Errorf("the stop took %v, want at most %v", took, o.Drain+9*time.Second)
		}
		held[0].Done(consumer.Outcome{})
		if got, _ := w.committed("jobs", 0); got != 0 || n.c.Status().InFlight != 0 {
			t.Errorf("got offset %d and %d in flight, want 0 and 0", got, n.c.Status().InFlight)
		}
	})
}

// A job whose result can't be written was answered: it does not time out. The late answer of
// a job that timed out makes no second result.
func TestAJobThatWaitsForItsResultDoesNotTimeOut(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", keyed("a", "slow"), keyed("b", "stuck"))
		o := w.options()
		o.Results, o.JobTimeout = true, 5*time.Second
		n := w.start(o, nil)
		held := n.holding(2)
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.results", Err: kerr.NotLeaderForPartition, Count: -1})
		held[0].Done(consumer.Outcome{Attempts: 1})
		time.Sleep(20 * time.Second)
		fault.Remove()
		w.until("both are settled", func() bool { got, _ := w.committed("jobs", 0); return got == 2 })
		held[1].Done(consumer.Outcome{Attempts: 1})
		time.Sleep(time.Second)
		w.ok(n.end())
		var results []string
		for _, m := range w.records("jobs.results") {
			results = append(results, string(m.Key))
		}
		slices.Sort(results)
		letters := w.letters("jobs")
		if !slices.Equal(results, []string{"a", "b"}) || len(letters) != 1 || string(letters[0].Value) != "stuck" {
			t.Errorf("got results of %v and dead letters %v, want one result each and the dead letter of the stuck one", results, letters)
		}
	})
}

// A job that was answered, and waits until that is written, does not time out.
func TestAJobThatWasAnsweredDoesNotTimeOut(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", keyed("a", "a1"))
		o := w.options()
		o.JobTimeout = 5 * time.Second
		n := w.start(o, nil)
		held := n.holding(1)[0]
		held.Answered()
		time.Sleep(20 * time.Second)
		if got, _ := w.committed("jobs", 0); got > 0 || held.TimedOut() || n.c.Status().InFlight != 1 {
			t.Errorf("got offset %d, timed out %v and %d in flight, want it to wait", got, held.TimedOut(), n.c.Status().InFlight)
		}
		held.Done(consumer.Outcome{})
		w.until("it is settled", func() bool { got, _ := w.committed("jobs", 0); return got == 1 })
		w.ok(n.end())
		if letters := w.letters("jobs"); len(letters) != 0 {
			t.Errorf("got dead letters %v, want none", letters)
		}
	})
}
