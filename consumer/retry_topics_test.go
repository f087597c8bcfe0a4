package consumer_test

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/job"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func withRetryTopics(o consumer.Options, order consumer.Order, delays ...time.Duration) consumer.Options {
	o.Order, o.RetryTopics = order, delays
	return o
}

func header(name, value string) job.Header { return job.Header{Key: name, Value: []byte(value)} }

// A job that was called before keeps its number of calls, also where its retry topic refuses it.
func TestARefusedJobOfARetryTopicKeepsItsCalls(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		n := w.start(withRetryTopics(w.options(), consumer.OrderNone, 5*time.Second), settled)
		w.until("joined", func() bool { return n.c.Status().Joined })
		w.produce("jobs.retry.5s", job.Record{Value: []byte("v"), Headers: []job.Header{header("x-attempt", "3"), header(job.HeaderLane, "unknown")}})
		w.waitFor("jobs.retry.5s", 0, 1)
		w.ok(n.end())
		if got := headerMap(w.letters("jobs")[0]); got["x-attempt"] != "3" || got["x-error-class"] != "unsupported" {
			t.Errorf("got attempt %q and class %q, want 3 and unsupported", got["x-attempt"], got["x-error-class"])
		}
	})
}

// A retry keeps the identity of a job: the provider and the dedup store know it again, whatever origin its producer states.
func TestLawARetriedJobKeepsItsIdentity(t *testing.T) {
	t.Parallel()
	origin := func(topic string, more ...job.Header) []job.Header {
		return append(more, header("x-original-topic", topic), header("x-original-partition", "0"), header("x-original-offset", "5"))
	}
	for name, headers := range map[string][]job.Header{
		"no topic of Kafka":  origin("my topic"),
		"without a time":     origin("old"),
		"with an odd time":   origin("old", header("x-original-timestamp", "yesterday")),
		"with a time":        origin("old", header("x-original-timestamp", "2026-01-01T00:00:00Z")),
		"a time and no more": {header("x-original-timestamp", "2026-01-01T00:00:00Z")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				w.produce("jobs", job.Record{Value: []byte("v"), Headers: headers})
				n := w.start(withRetryTopics(w.options(), consumer.OrderNone, 5*time.Second), nil)
				first := n.holding(1)[0]
				if !first.RetryLater(time.Now().Add(8*time.Second), deadletter.Failure{Class: deadletter.ClassUnavailable, Calls: 1, Failures: 1}) {
					t.Fatal("got false from RetryLater, want true: there is a retry topic for 8s")
				}
				second := n.holding(1)[0]
				if second.Job.ID != first.Job.ID || second.FirstTopic() != first.FirstTopic() || !second.FirstWritten().Equal(first.FirstWritten()) {
					t.Errorf("got %s of %s, written at %v, want %s of %s, written at %v as at first", second.Job.ID, second.FirstTopic(), second.FirstWritten(),
						first.Job.ID, first.FirstTopic(), first.FirstWritten())
				}
				second.Done(consumer.Outcome{})
				w.ok(n.end())
			})
		})
	}
}

// A job that is tried again later comes back at that time as the same job: key, value, id and
// foreign headers as they were, with its attempts. Retry metadata of a producer is ignored.
func TestARetriedJobComesBackAsItWas(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", job.Record{Key: []byte("k"), Value: []byte("v"), Headers: []job.Header{
			header("foreign", "1"), header("x-attempt", "77"), header("x-failures", "77"), header("x-not-before", "2999-01-01T00:00:00Z"), header("foreign", "2"),
		}})
		n := w.start(withRetryTopics(w.options(), consumer.OrderNone, 5*time.Second, time.Minute), nil)
		first := n.holding(1)[0]
		if first.Attempts() != (consumer.Attempts{}) {
			t.Errorf("got attempts %+v at first, want none", first.Attempts())
		}
		at := time.Now().Add(8 * time.Second)
		if !first.RetryLater(at, deadletter.Failure{Class: deadletter.ClassUnavailable, Code: "503", Message: "m", Calls: 3, Failures: 2}) {
			t.Fatal("got false from RetryLater, want true: there is a retry topic for 8s")
		}
		record := headerMap(w.records("jobs.retry.5s")[0])
		for name, want := range map[string]string{
			"x-original-topic": "jobs", "x-original-partition": "0", "x-original-offset": "0", "x-attempt": "3", "x-failures": "2",
			"x-error-class": "unavailable", "x-error-code": "503", "x-error-message": "m", "x-not-before": at.UTC().Format(time.RFC3339Nano),
		} {
			if record[name] != want {
				t.Errorf("header %s: got %q, want %q", name, record[name], want)
			}
		}
		second := n.holding(1)[0]
		if off := time.Since(at); off < 0 || off > 50*time.Millisecond {
			t.Errorf("got it back %v off its time, want at most 50ms late", off)
		}
		var foreign []string
		for _, h := range second.Job.Headers {
			if h.Key == "foreign" {
				foreign = append(foreign, string(h.Value))
			}
		}
		if second.Attempts() != (consumer.Attempts{Calls: 3, Failures: 2}) || second.Job.ID != first.Job.ID || string(second.Job.Key) != "k" ||
			string(second.Job.Value) != "v" || strings.Join(foreign, "") != "12" || !second.Job.Time.Equal(first.Job.Time) {
			t.Errorf("got %+v, want the first one with 3 calls and 2 failures", second)
		}
		second.Done(consumer.Outcome{})
		w.until("both are committed", func() bool {
			a, _ := w.committed("jobs", 0)
			b, _ := w.committed("jobs.retry.5s", 0)
			return a == 1 && b == 1
		})
		w.ok(n.end())
	})
}

// In order by key or partition a failed job is never overtaken by way of a retry topic. A wait
// shorter than the first delay is in place.
func TestNoRetryTopicWhereAJobHasToWaitInPlace(t *testing.T) {
	t.Parallel()
	for _, order := range []consumer.Order{consumer.OrderKey, consumer.OrderPartition, consumer.OrderNone} {
		bubble(t, 1, func(w *fleet) {
			w.produce("jobs", numbered(0, 1)...)
			n := w.start(withRetryTopics(w.options(), order, 5*time.Second), nil)
			d := n.holding(1)[0]
			if d.RetryLater(time.Now().Add(4*time.Second), deadletter.Failure{}) {
				t.Errorf("%s: a wait of 4s went to a retry topic, want it to wait in place", order)
			}
			if order != consumer.OrderNone && d.RetryLater(time.Now().Add(time.Hour), deadletter.Failure{}) {
				t.Errorf("%s: a failed job went to a retry topic, want it to wait in place", order)
			}
			d.Done(consumer.Outcome{})
			w.ok(n.end())
		})
	}
}

// While the retry topic can't be written the job stays open: it is neither lost nor settled,
// and after a stop the next node gets it.
func TestARetryTopicThatFailsLeavesTheJobOpen(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 1)...)
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.retry.5s", Err: kerr.NotLeaderForPartition, Count: -1})
		o := withRetryTopics(w.options(), consumer.OrderNone, 5*time.Second)
		later := func(d *consumer.Delivery) {
			if d.Attempts().Calls > 0 {
				d.Done(consumer.Outcome{})
				return
			}
			go d.RetryLater(time.Now().Add(6*time.Second), deadletter.Failure{Class: deadletter.ClassUnavailable, Calls: 1})
		}
		n := w.start(o, later)
		time.Sleep(20 * time.Second)
		if offset, _ := w.committed("jobs", 0); offset != 0 || n.c.Status().InFlight != 1 {
			t.Errorf("got offset %d and %d in flight, want 0 and 1", offset, n.c.Status().InFlight)
		}
		w.ok(n.end())
		fault.Remove()
		if got := len(w.records("jobs.retry.5s")); got != 0 {
			t.Errorf("got %d records in the retry topic, want none", got)
		}
		n = w.start(o, later)
		w.until("it has been there and back", func() bool { offset, _ := w.committed("jobs.retry.5s", 0); return offset == 1 })
		w.ok(n.end())
	})
}

// A job that is too large for its retry topic, and can't wait in memory until it is due,
// becomes a dead letter. It is intact where it fits there: truncated, it would be another job.
func TestAJobTooLargeForItsRetryTopicIsNotTruncated(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", scheduled(string(noise('x', 5000)), time.Now().Add(2*time.Minute)))
		w.refuse("jobs.retry.5s", 4000)
		n := w.start(withRetryTopics(w.options(), consumer.OrderKey, 5*time.Second), nil)
		w.until("it is settled", func() bool { offset, _ := w.committed("jobs", 0); return offset == 1 })
		w.ok(n.end())
		letters := w.letters("jobs")
		if len(letters) != 1 || len(letters[0].Value) != 5000 || headerMap(letters[0])["x-error-class"] != "unsupported" {
			t.Errorf("got %d dead letters, want one that is intact and unsupported: %v", len(letters), letters)
		}
	})
}

// Whatever fails and whenever nodes stop: each job is done once or dead once, and none is lost
// between the topics. Jobs that were ready, asleep or in a retry topic at a stop come again.
func TestNothingIsLostBetweenRetryTopicsAndRestarts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		bubble(t, 3, func(w *fleet) {
			const jobs = 600
			rnd := rand.New(rand.NewPCG(seed, 9))
			var records []job.Record
			for i := range jobs {
				r := job.Record{Key: []byte(strconv.Itoa(i % 50)), Value: []byte(strconv.Itoa(i))}
				if i%5 == 0 {
					r = scheduled(strconv.Itoa(i), time.Now().Add(time.Duration(rnd.Int64N(int64(2*time.Minute)))))
				}
				records = append(records, r)
			}
			w.produce("jobs", records...)
			o := withRetryTopics(w.options(), consumer.OrderNone, 2*time.Second, 20*time.Second)
			o.Workers = 40
			s := &tally{rnd: rand.New(rand.NewPCG(seed, 10)), done: map[string]int{}, dead: map[string]int{}}
			for i := range 8 {
				n := w.start(o, s.work)
				time.Sleep(time.Duration(3+rnd.IntN(15)) * time.Second)
				if i%2 == 0 { // another one comes and goes meanwhile
					other := w.start(o, s.work)
					time.Sleep(time.Duration(1+rnd.IntN(10)) * time.Second)
					w.ok(other.end())
				}
				w.ok(n.end())
			}
			n := w.start(o, s.work)
			w.within(10*time.Minute, "all are settled", func() bool { return s.settled() == jobs })
			w.until("nothing is left", func() bool { return n.c.Status().Lag == 0 })
			w.ok(n.end())
			for value, times := range s.done {
				if times != 1 || s.dead[value] != 0 {
					t.Errorf("seed %d: got job %s done %d and dead %d times, want one of them once", seed, value, times, s.dead[value])
				}
			}
			letters := 0
			for _, p := range w.cluster.PartitionInfos("jobs.dlq") {
				letters += int(p.HighWatermark)
			}
			if letters != len(s.dead) || letters == 0 {
				t.Errorf("seed %d: got %d dead letters, want %d and some", seed, letters, len(s.dead))
			}
		})
	}
}

// tally is a worker that counts the jobs done and dead. One in two calls fails, so about one
// job in thirty is dead.
type tally struct {
	mu         sync.Mutex
	rnd        *rand.Rand
	least      time.Duration // before the next call; 0: two seconds
	done, dead map[string]int
}

func (s *tally) settled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.done) + len(s.dead)
}

func (s *tally) work(d *consumer.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value := string(d.Job.Value)
	switch {
	case s.rnd.IntN(2) > 0:
		s.done[value]++
		d.Done(consumer.Outcome{})
	case d.Attempts().Failures >= 4:
		s.dead[value]++
		go d.Dead(deadletter.Failure{Class: deadletter.ClassExhausted, Calls: d.Attempts().Calls + 1}, consumer.Outcome{})
	default:
		wait := cmp.Or(s.least, 2*time.Second) + time.Duration(s.rnd.IntN(15))*cmp.Or(s.least, 2*time.Second)/2
		failure := deadletter.Failure{Class: deadletter.ClassUnavailable, Calls: d.Attempts().Calls + 1, Failures: d.Attempts().Failures + 1}
		go func() {
			if !d.RetryLater(time.Now().Add(wait), failure) {
				panic(fmt.Sprint("no retry topic for ", wait))
			}
		}()
	}
}

// Retry topics are created with as many partitions as the topic of jobs. A missing one is
// named where none is created.
func TestRetryTopicsAreDerivedTopics(t *testing.T) {
	t.Parallel()
	bubble(t, 3, func(w *fleet) {
		o := withRetryTopics(w.options(), consumer.OrderNone, 5*time.Second, 10*time.Minute)
		o.CreateTopics = false
		n := w.start(o, nil)
		if err := <-n.err; err == nil || !strings.Contains(err.Error(), "jobs.dlq") {
			t.Errorf("got %v, want an error that names jobs.dlq", err)
		}
		o.CreateTopics = true
		n = w.start(o, nil)
		w.until("it has joined", func() bool { return n.c.Status().Joined })
		w.until("all partitions are there", func() bool { return len(n.c.Status().Partitions) == 9 })
		if got := len(w.cluster.PartitionInfos("jobs.retry.10m")); got != 3 {
			t.Errorf("got %d partitions in the retry topic, want 3", got)
		}
		synctest.Wait()
		w.ok(n.end())
	})
}

// The log names a retry topic that was taken out of the settings: jobs left in it are not
// sent.
func TestAnUnreadRetryTopicIsNamed(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		o := withRetryTopics(w.options(), consumer.OrderNone, 5*time.Second, time.Minute)
		n := w.start(o, nil)
		w.until("it has joined", func() bool { return n.c.Status().Joined })
		w.ok(n.end())
		var said strings.Builder
		o.RetryTopics, o.Logger = o.RetryTopics[:1], slog.New(slog.NewTextHandler(&said, nil))
		n = w.start(o, nil)
		w.until("it has joined", func() bool { return n.c.Status().Joined })
		w.ok(n.end())
		if !strings.Contains(said.String(), "topic=jobs.retry.1m\n") || strings.Contains(said.String(), "topic=jobs.retry.5s\n") {
			t.Errorf("got the log %s, want it to name jobs.retry.1m and not jobs.retry.5s", said.String())
		}
	})
}
