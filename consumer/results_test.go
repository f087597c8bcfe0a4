package consumer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer/deadletter"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"dispatcher/consumer"
	"dispatcher/job"
)

func (w *fleet) withResults() consumer.Options {
	o := w.options()
	o.Results = true
	return o
}

// results reads what was written to a topic's results, which have one partition.
func (w *fleet) results(topic string) (keys []string, values []job.Result) {
	w.t.Helper()
	res, err := w.client.Fetch(w.t.Context(), &kafka.FetchRequest{Topic: topic + ".results", MinBytes: 0, MaxBytes: 64 << 20, MaxWait: 10 * time.Millisecond})
	w.ok(err)
	w.ok(res.Error)
	for {
		rec, err := res.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return keys, values
		}
		w.ok(err)
		key, err := kafka.ReadAll(rec.Key)
		w.ok(err)
		value, err := kafka.ReadAll(rec.Value)
		w.ok(err)
		var r job.Result
		w.ok(json.Unmarshal(value, &r))
		keys, values = append(keys, string(key)), append(values, r)
	}
}

// failResults makes the writes to a topic's results fail until it is removed.
func (w *fleet) failResults(topic string) *kfake.FaultHandle {
	return w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic + ".results", Err: kerr.NotEnoughReplicas, Count: -1})
}

// startSettling runs a node that settles each job with a result.
func (w *fleet) startSettling(o consumer.Options, settle func(*consumer.Delivery)) *node {
	w.t.Helper()
	var n *node
	ready := make(chan struct{})
	n = w.start(o, func(d *consumer.Delivery) {
		<-ready
		settle(d)
	})
	close(ready)
	return n
}

// writesTo counts the produce requests for a topic.
func (w *fleet) writesTo(topic string) *atomic.Int64 {
	var writes atomic.Int64
	w.cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		for _, t := range r.(*kmsg.ProduceRequest).Topics {
			if t.Topic == topic {
				writes.Add(1)
			}
		}
		return nil, nil, false
	})
	return &writes
}

func accepted(d *consumer.Delivery) {
	d.Done(consumer.Outcome{Status: 202, Attempts: 1})
}

func TestResultsSayWhatBecameOfEachJob(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		began := time.Now().UTC()
		large := bytes.Repeat([]byte("k"), 20_000)
		w.produce("jobs",
			job.Record{Key: []byte("k"), Value: []byte("done"), Headers: []job.Header{{Key: "idempotency-key", Value: []byte("a")}}},
			job.Record{Value: []byte("done")},
			job.Record{Key: large, Value: []byte("done")},
			job.Record{Value: []byte("permanent")}, job.Record{Value: []byte("expired")}, job.Record{Value: []byte("exhausted")}, job.Record{Value: []byte("unknown")},
			job.Record{Value: []byte("done"), Headers: []job.Header{
				{Key: "x-original-topic", Value: []byte("old")},
				{Key: "x-original-partition", Value: []byte("3")},
				{Key: "x-original-offset", Value: []byte("9")},
				{Key: "x-original-timestamp", Value: []byte("2026-01-01T00:00:00Z")},
			}},
		)
		sent := began.Add(time.Second)
		o := w.withResults()
		o.Node = "n1"
		n := w.startSettling(o, func(d *consumer.Delivery) {
			out := consumer.Outcome{Status: 202, Attempts: 2, SentAt: sent, MessageID: "m-1"}
			if class := string(d.Job.Value); class != "done" {
				d.Dead(deadletter.Failure{Class: deadletter.Class(class), Calls: 2}, consumer.Outcome{Attempts: 2, Error: "it said no"})
				return
			}
			d.Done(out)
		})
		w.waitFor("jobs", 0, 8)
		w.ok(n.end())
		keys, got := w.results("jobs")
		slices.SortFunc(got, func(a, b job.Result) int { return int(a.Offset - b.Offset) })
		slices.Sort(keys)
		if diff := cmp.Diff([]string{"jobs/0/1", "jobs/0/2", "jobs/0/3", "jobs/0/4", "jobs/0/5", "jobs/0/6", "k", "old/3/9"}, keys); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
		dead := func(offset int64, result string) job.Result {
			return job.Result{ID: fmt.Sprintf("jobs/0/%d", offset), Topic: "jobs", Offset: offset, Result: result, Attempts: 2, Error: "it said no", Node: "n1"}
		}
		done := job.Result{Topic: "jobs", Result: "accepted", Attempts: 2, Status: 202, MessageID: "m-1", SentAt: sent, Node: "n1"}
		first, second, third, moved := done, done, done, done
		first.ID = "a"
		second.ID, second.Offset = "jobs/0/1", 1
		third.ID, third.Offset = "jobs/0/2", 2
		moved.ID, moved.Topic, moved.Partition, moved.Offset = "old/3/9", "old", 3, 9
		want := []job.Result{first, second, third, dead(3, "rejected"), dead(4, "expired"), dead(5, "exhausted"), dead(6, "unknown"), moved}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(job.Result{}, "EnqueuedAt", "SettledAt")); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
		for _, r := range got {
			if r.EnqueuedAt.IsZero() || r.SettledAt.Before(began) || (r.Topic == "old") != (r.EnqueuedAt.Month() == time.January && r.EnqueuedAt.Year() == 2026) {
				t.Errorf("got times %v and %v of %s, want both set, and January 2026 for the moved one", r.EnqueuedAt, r.SettledAt, r.ID)
			}
		}
		if letters := w.letters("jobs"); len(letters) != 4 {
			t.Errorf("got %d dead letters, want 4", len(letters))
		}
	})
}

// No offset is committed beyond a job whose result Kafka does not have, and no worker waits
// for it.
func TestAJobIsSettledOnceItsResultIsThere(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		n := w.startSettling(w.withResults(), func(d *consumer.Delivery) {
			began := time.Now()
			accepted(d)
			if took := time.Since(began); took != 0 {
				t.Errorf("Done took %v, want nothing", took)
			}
		})
		w.until("joined", func() bool { return n.c.Status().Joined })
		fault := w.failResults("jobs")
		w.produce("jobs", numbered(0, 10)...)
		w.until("all are handed out", func() bool { return len(n.values()) == 10 })
		time.Sleep(20 * time.Second)
		if got, _ := w.committed("jobs", 0); got > 0 {
			t.Errorf("got offset %d committed while no result was written, want 0", got)
		}
		if err := n.c.Status().Ready(); err == nil || !strings.Contains(err.Error(), "results of topic jobs, partition 0") {
			t.Errorf("got ready %v, want it to name the results", err)
		}
		fault.Remove()
		w.waitFor("jobs", 0, 10)
		if err := n.c.Status().Ready(); err != nil {
			t.Errorf("got ready %v once results are written, want nil", err)
		}
		w.ok(n.end())
		if _, got := w.results("jobs"); len(got) != 10 || len(n.values()) != 10 {
			t.Errorf("got %d results of %d hand-outs, want 10 of 10", len(got), len(n.values()))
		}
	})
}

// While the partitions of a results topic are not known, the fault is one of the whole topic. It
// ends with the first result, whatever its partition.
func TestAFaultBeforeAResultHasAPartitionEnds(t *testing.T) {
	t.Parallel()
	bubble(t, 3, func(w *fleet) {
		n := w.startSettling(w.withResults(), accepted)
		w.until("joined", func() bool { return n.c.Status().Joined })
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "jobs.results", Err: kerr.LeaderNotAvailable, Count: -1})
		w.produce("jobs", job.Record{Key: []byte("a"), Value: []byte("x")})
		w.until("it is handed out", func() bool { return len(n.values()) == 1 })
		time.Sleep(20 * time.Second)
		if err := n.c.Status().Ready(); err == nil || !strings.Contains(err.Error(), "results of topic jobs: ") {
			t.Errorf("got ready %v, want it to name the results of the topic and no partition", err)
		}
		fault.Remove()
		time.Sleep(20 * time.Second)
		if err := n.c.Status().Ready(); err != nil || n.c.Status().InFlight != 0 {
			t.Errorf("got ready %v and %d in flight once the result is written, want nil and 0", err, n.c.Status().InFlight)
		}
		w.ok(n.end())
		if _, got := w.results("jobs"); len(got) != 0 {
			t.Errorf("got %d results in partition 0, want the one of the key in another partition", len(got))
		}
	}, "jobs", "jobs.results")
}

// Jobs that wait for their results count as in flight. So memory is bounded, and a results
// topic that can't be written stops further jobs of its topic.
func TestJobsThatWaitForResultsAreInFlight(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		o := w.withResults()
		o.Workers = 4
		n := w.startSettling(o, accepted)
		w.until("joined", func() bool { return n.c.Status().Joined })
		fault := w.failResults("jobs")
		w.produce("jobs", numbered(0, 50)...)
		time.Sleep(30 * time.Second)
		if got := len(n.values()); got != 4 {
			t.Errorf("got %d jobs handed out, want the 4 that may be in flight", got)
		}
		fault.Remove()
		w.waitFor("jobs", 0, 50)
		w.ok(n.end())
		if _, got := w.results("jobs"); len(got) != 50 || len(n.values()) != 50 {
			t.Errorf("got %d results of %d hand-outs, want 50 of 50", len(got), len(n.values()))
		}
	})
}

func TestResultsOfAnotherTopicGoOn(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		o := w.withResults()
		o.Topics = []string{"jobs", "more"}
		n := w.startSettling(o, accepted)
		w.until("joined", func() bool { return n.c.Status().Joined })
		fault := w.failResults("jobs")
		w.produce("jobs", numbered(0, 3)...)
		w.until("the first topic's results are refused", func() bool { return fault.Hits() > 2 })
		w.produce("more", numbered(0, 3)...)
		w.waitFor("more", 0, 3)
		w.ok(n.end())
		if got, _ := w.committed("jobs", 0); got > 0 {
			t.Errorf("got offset %d committed, want nothing", got)
		}
	}, "jobs", "more")
}

// A drain awaits results as it awaits calls. Jobs whose results are not written by its end are
// handed out again.
func TestDrainAwaitsResults(t *testing.T) {
	t.Parallel()
	for name, heals := range map[string]bool{"it heals": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				n := w.startSettling(w.withResults(), accepted)
				w.until("joined", func() bool { return n.c.Status().Joined })
				fault := w.failResults("jobs")
				w.produce("jobs", numbered(0, 5)...)
				w.until("they are refused", func() bool { return len(n.values()) == 5 && fault.Hits() > 0 })
				n.stop()
				if heals {
					time.Sleep(3 * time.Second)
					fault.Remove()
				}
				began := time.Now()
				w.ok(n.end())
				if took := time.Since(began); took > 12*time.Second {
					t.Errorf("the stop took %v, want at most 12s", took)
				}
				fault.Remove()
				again := w.startSettling(w.withResults(), accepted)
				w.waitFor("jobs", 0, 5)
				synctest.Wait()
				w.ok(again.end())
				want := map[bool]int{true: 0, false: 5}[heals]
				if _, got := w.results("jobs"); len(got) != 5 || len(again.values()) != want {
					t.Errorf("got %d results and %d jobs handed out again, want 5 and %d", len(got), len(again.values()), want)
				}
			})
		})
	}
}

// A broker that takes no large batch gets results one by one. A result that is too large for
// its job's key alone gets the job's id as key.
func TestResultsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.refuse("jobs.results", 1000)
		var all []job.Record
		for i := range 20 {
			all = append(all, job.Record{Key: noise('a'+byte(i), 10+i%2*5000), Value: []byte("x")})
		}
		w.produce("jobs", all...)
		n := w.startSettling(w.withResults(), accepted)
		w.waitFor("jobs", 0, 20)
		w.ok(n.end())
		keys, got := w.results("jobs")
		slices.SortFunc(got, func(a, b job.Result) int { return int(a.Offset - b.Offset) })
		ids := 0
		for _, k := range keys {
			if strings.HasPrefix(k, "jobs/0/") {
				ids++
			}
		}
		if len(got) != 20 || len(n.values()) != 20 || ids != 10 {
			t.Errorf("got %d results of %d hand-outs, %d under their id; want 20 of 20, 10", len(got), len(n.values()), ids)
		}
	})
}

// A result that its topic refuses however small it is holds its job, and the node says so. It is
// written once an operator lets the topic take it.
func TestAResultThatItsTopicNeverTakes(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		fault := w.refuse("jobs.results", 10)
		w.produce("jobs", numbered(0, 5)...)
		n := w.startSettling(w.withResults(), accepted)
		time.Sleep(30 * time.Second)
		if err := n.c.Status().Ready(); err == nil || !strings.Contains(err.Error(), "results of topic jobs, partition 0") {
			t.Errorf("got ready %v, want it to name the results", err)
		}
		fault.Remove()
		w.waitFor("jobs", 0, 5)
		w.ok(n.end())
		if _, got := w.results("jobs"); len(got) != 5 || len(n.values()) != 5 {
			t.Errorf("got %d results of %d hand-outs, want 5 of 5", len(got), len(n.values()))
		}
	})
}

// A result that hangs in the network delays the stop by no more than the drain and one try.
func TestHangingResultsDoNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		o := w.withResults()
		o.Dial = w.lossy(func(key int16, _ int) bool { return key == kmsg.Produce.Int16() })
		n := w.startSettling(o, accepted)
		w.until("joined", func() bool { return n.c.Status().Joined })
		for i := range 40 { // more than one batch
			w.produce("jobs", numbered(i*5, i*5+5)...)
		}
		w.until("all are handed out", func() bool { return len(n.values()) == 200 })
		began := time.Now()
		w.ok(n.end())
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the stop took %v, want at most the drain of 7s, half of it, and a little", took)
		}
	})
}

// Settling a job after the end of the consumer has no effect.
func TestResultsAfterTheEnd(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 2)...)
		n := w.start(w.withResults(), nil)
		held := n.holding(2)
		w.ok(n.end())
		held[0].Done(consumer.Outcome{})
		held[1].Dead(deadletter.Failure{Class: deadletter.ClassPermanent}, consumer.Outcome{})
		if _, got := w.results("jobs"); len(got) != 0 {
			t.Errorf("got results %v, want none", got)
		}
		if got, _ := w.committed("jobs", 0); got > 0 {
			t.Errorf("got offset %d committed, want 0", got)
		}
	})
}

// Without results, jobs are settled at once, and no results topic is created or written.
func TestNoResultsSettleAtOnce(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 2)...)
		produced := w.writesTo("jobs.results")
		n := w.startSettling(w.options(), func(d *consumer.Delivery) {
			if string(d.Job.Value) == "0" {
				d.Done(consumer.Outcome{})
				return
			}
			d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent}, consumer.Outcome{})
		})
		w.waitFor("jobs", 0, 2)
		w.ok(n.end())
		if got := len(w.letters("jobs")); got != 1 {
			t.Errorf("got %d dead letters, want 1", got)
		}
		if got := w.cluster.PartitionInfos("jobs.results"); len(got) != 0 {
			t.Errorf("got a results topic of %d partitions, want none", len(got))
		}
		if got := produced.Load(); got != 0 {
			t.Errorf("got %d writes to the results topic, want none", got)
		}
	})
}

func TestResultsTopicThatIsMissing(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		o := w.withResults()
		o.CreateTopics = false
		n := w.start(o, nil)
		if err := <-n.err; err == nil || !strings.Contains(err.Error(), "topic jobs.results does not exist") {
			t.Errorf("got %v, want an error that names the topic", err)
		}
	}, "jobs", "jobs.dlq")
}

// A dead letter is never begun for a job whose result could not be written.
func TestDeadLettersComeAfterTheirResults(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		reg := prometheus.NewRegistry()
		o := w.withResults()
		o.Registerer = reg
		n := w.startSettling(o, func(d *consumer.Delivery) {
			go d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent}, consumer.Outcome{Attempts: 1})
		})
		w.until("joined", func() bool { return n.c.Status().Joined })
		fault := w.failResults("jobs")
		w.produce("jobs", numbered(0, 3)...)
		w.until("they are refused", func() bool { return fault.Hits() > 3 })
		if got := w.letters("jobs"); len(got) != 0 {
			t.Errorf("got %d dead letters before the results, want none", len(got))
		}
		if v := gathered(t, reg, "dispatcher_consumer_waiting_results"); v != 3 {
			t.Errorf("got %v results that wait, want 3", v)
		}
		fault.Remove()
		w.waitFor("jobs", 0, 3)
		w.ok(n.end())
		if _, got := w.results("jobs"); len(got) != 3 || len(w.letters("jobs")) != 3 {
			t.Errorf("got %d results and %d dead letters, want 3 of each", len(got), len(w.letters("jobs")))
		}
		if v := gathered(t, reg, "dispatcher_consumer_results_total"); v != 3 {
			t.Errorf("got %v results counted, want 3", v)
		}
	})
}

// gathered is the sum of a metric's series.
func gathered(t *testing.T, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// A job that no worker sees has a result as well: here one whose not-after had passed. A
// record that could not be read has none.
func TestJobsThatNoWorkerSeesHaveAResult(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs",
			job.Record{Value: []byte("late"), Headers: []job.Header{{Key: "not-after", Value: []byte("1999-01-01T00:00:00Z")}}},
			job.Record{Value: []byte("unreadable"), Headers: []job.Header{{Key: "not-after", Value: []byte("soon")}}},
			job.Record{Value: []byte("sent")},
		)
		n := w.startSettling(w.withResults(), accepted)
		w.waitFor("jobs", 0, 3)
		w.ok(n.end())
		_, got := w.results("jobs")
		became := map[int64]string{}
		for _, r := range got {
			became[r.Offset] = r.Result
		}
		if diff := cmp.Diff(map[int64]string{0: job.ResultExpired, 2: job.ResultAccepted}, became); diff != "" {
			t.Errorf("results by offset (-want +got):\n%s", diff)
		}
	})
}
