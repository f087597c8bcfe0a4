package consumer_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dispatcher/consumer/deadletter"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dispatcher/consumer"
	"dispatcher/job"
)

// The result of a job that comes back through a retry topic is among those of its topic of
// jobs, and names the job's first place.
func TestResultsOfRetryTopicsAreThoseOfTheTopic(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		o := w.withResults()
		o.Order, o.RetryTopics = consumer.OrderNone, []time.Duration{5 * time.Second}
		n := w.startSettling(o, func(d *consumer.Delivery) {
			if d.Attempts().Calls == 0 {
				go d.RetryLater(time.Now().Add(6*time.Second), deadletter.Failure{Class: deadletter.ClassUnavailable, Calls: 1, Failures: 1})
				return
			}
			d.Done(consumer.Outcome{Status: 200, Attempts: 2})
		})
		w.produce("jobs", numbered(0, 3)...)
		w.waitFor("jobs.retry.5s", 0, 3)
		w.ok(n.end())
		keys, got := w.results("jobs")
		if len(got) != 3 {
			t.Fatalf("got results %v, want 3", got)
		}
		for i, r := range got {
			if r.Topic != "jobs" || r.Offset > 2 || r.Attempts != 2 || keys[i] != r.ID {
				t.Errorf("got %+v under key %q, want one of jobs with 2 attempts, under its id", r, keys[i])
			}
		}
	})
}

// Jobs whose results can't be written do not time out: sent again they would be repeats.
func TestJobsThatWaitForResultsDoNotTimeOut(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		o := w.withResults()
		o.JobTimeout = 3 * time.Second
		n := w.startSettling(o, accepted)
		w.until("joined", func() bool { return n.c.Status().Joined })
		fault := w.failResults("jobs")
		w.produce("jobs", numbered(0, 3)...)
		time.Sleep(30 * time.Second)
		fault.Remove()
		w.waitFor("jobs", 0, 3)
		w.ok(n.end())
		if _, got := w.results("jobs"); len(got) != 3 || len(n.values()) != 3 || len(w.letters("jobs")) != 0 {
			t.Errorf("got %d results of %d hand-outs and %d dead letters, want 3, 3 and 0", len(got), len(n.values()), len(w.letters("jobs")))
		}
	})
}

// Jobs that were not called have a result too: those that expired, name another lane, or timed
// out. A record that is no job has none.
func TestResultsOfJobsThatWereNotCalled(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		header := func(key, value string) []job.Header { return []job.Header{{Key: key, Value: []byte(value)}} }
		o := w.withResults()
		o.JobTimeout = 3 * time.Second
		n := w.start(o, nil) // they are held
		w.until("joined", func() bool { return n.c.Status().Joined })
		fault := w.failResults("jobs")
		w.produce("jobs",
			job.Record{Value: []byte("late"), Headers: header("not-after", "1999-01-01T00:00:00Z")},
			job.Record{Value: []byte("lane"), Headers: header("lane", "otp")},
			job.Record{Value: []byte("bad"), Headers: header("cost", "x")},
			job.Record{Value: []byte("stuck")},
		)
		time.Sleep(10 * time.Second)
		if got := w.letters("jobs"); len(got) != 1 || string(got[0].Value) != "bad" {
			t.Errorf("got dead letters %v before the results, want that of the record that is no job", got)
		}
		fault.Remove()
		w.waitFor("jobs", 0, 4)
		w.ok(n.end())
		want := map[int64]string{0: "expired", 1: "unsupported", 3: "job_timeout"}
		_, got := w.results("jobs")
		for _, r := range got {
			if r.Result != want[r.Offset] || r.Error == "" != (r.Result == "expired") {
				t.Errorf("got %+v, want it %s", r, want[r.Offset])
			}
		}
		if len(got) != 3 || len(w.letters("jobs")) != 4 {
			t.Errorf("got %d results and %d dead letters, want 3 and 4", len(got), len(w.letters("jobs")))
		}
	})
}

// A drain does not wait for the results of jobs that no worker has.
func TestDrainDoesNotWaitForTheResultsOfRejectedJobs(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		n := w.start(w.withResults(), nil)
		w.until("joined", func() bool { return n.c.Status().Joined })
		var hits atomic.Int64
		w.cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.results", Err: kerr.NotEnoughReplicas, Count: -1,
			When: func(kmsg.Request) bool { hits.Add(1); return true },
		})
		w.produce("jobs", job.Record{Value: []byte("late"), Headers: []job.Header{{Key: "not-after", Value: []byte("1999-01-01T00:00:00Z")}}})
		w.until("its result is refused", func() bool { return hits.Load() > 1 })
		began := time.Now()
		w.ok(n.end())
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the stop took %v, want at most 4s", took)
		}
		if got, _ := w.committed("jobs", 0); got > 0 {
			t.Errorf("got offset %d committed, want 0", got)
		}
	})
}

// A results topic that is a job topic as well is refused, in whichever lane.
func TestResultsAreNoJobsInAnyLane(t *testing.T) {
	t.Parallel()
	_, err := consumer.New(consumer.Options{
		Connection: consumer.Connection{Brokers: []string{"127.0.0.1:9092"}}, Group: "g", Results: true,
		Lanes: []consumer.Lane{{Name: "a", Topics: []string{"jobs"}}, {Name: "b", Topics: []string{"jobs.results"}}},
	})
	if err == nil || !strings.Contains(err.Error(), `"jobs.results": is where the results of jobs go`) {
		t.Errorf("got %v, want a refusal of jobs.results", err)
	}
}
