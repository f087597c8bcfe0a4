package consumer_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/job"
)

// scheduled is a job that is due at a time.
func scheduled(value string, at time.Time, more ...job.Header) job.Record {
	return job.Record{Value: []byte(value), Headers: append(more, header("not-before", at.Format(time.RFC3339Nano)))}
}

// A job with a not-before is handed out at that time, never before. Meanwhile it holds neither
// its key nor its partition.
func TestSchedulesAreKept(t *testing.T) {
	t.Parallel()
	for _, order := range []consumer.Order{consumer.OrderKey, consumer.OrderPartition, consumer.OrderNone} {
		for _, retryTopics := range [][]time.Duration{nil, {5 * time.Second}, {time.Second, 10 * time.Second, 30 * time.Second}} {
			most := 3 * time.Minute
			if retryTopics == nil {
				most = time.Minute
			}
			bubble(t, 2, func(w *fleet) { schedulesAreKept(w, withRetryTopics(w.options(), order, retryTopics...), most) })
		}
	}
}

func schedulesAreKept(w *fleet, o consumer.Options, most time.Duration) {
	const jobs = 300
	rnd := rand.New(rand.NewPCG(5, 6))
	begin := time.Now()
	var records []job.Record
	for i := range jobs {
		r := scheduled(strconv.Itoa(i), begin.Add(time.Duration(rnd.Int64N(int64(most)))))
		r.Key = []byte("key")
		records = append(records, r)
	}
	w.produce("jobs", append(records, keyed("key", "at once"))...)
	var mu sync.Mutex
	off := map[string]time.Duration{}
	n := w.start(o, func(d *consumer.Delivery) {
		mu.Lock()
		defer mu.Unlock()
		off[string(d.Job.Value)] = time.Since(d.Job.NotBefore)
		d.Done(consumer.Outcome{})
	})
	seen := func() int { mu.Lock(); defer mu.Unlock(); return len(off) }
	w.until("the one that waits for nothing is seen", func() bool { return seen() > 0 })
	if took := time.Since(begin); took > 10*time.Second {
		w.t.Errorf("it waited for %v, want at most 10s", took)
	}
	if l := n.c.Status().Lanes[0]; l.Waiting > 0 && len(o.RetryTopics) == 0 || l.Asleep == 0 {
		w.t.Errorf("got %+v, want the jobs asleep and none waiting", l)
	}
	w.within(most+10*time.Second, "all are seen", func() bool { return seen() == jobs+1 })
	for value, by := range off {
		if value != "at once" && (by < 0 || by > 300*time.Millisecond) {
			w.t.Errorf("%s, retry topics %v: job %s came %v off its time, want at most 300ms", o.Order, o.RetryTopics, value, by)
		}
	}
	w.ok(n.end())
}

// A schedule that can't be kept is refused at once, with the reason.
func TestSchedulesThatCantBeKept(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		now := time.Now()
		w.produce("jobs",
			scheduled("far", now.Add(2*time.Minute)),
			scheduled("backwards", now.Add(time.Second), header("not-after", now.Format(time.RFC3339Nano))),
			job.Record{Value: []byte("late"), Headers: []job.Header{header("not-after", now.Add(-time.Second).Format(time.RFC3339Nano))}},
		)
		n := w.start(w.options(), nil)
		w.until("all are settled", func() bool { offset, _ := w.committed("jobs", 0); return offset == 3 })
		w.ok(n.end())
		got := map[string]string{}
		for _, m := range w.letters("jobs") {
			got[string(m.Value)] = headerMap(m)["x-error-class"] + ": " + headerMap(m)["x-error-message"]
		}
		if len(n.values()) != 0 || !strings.HasPrefix(got["far"], "unsupported: ") || !strings.Contains(got["far"], "kafka.retry_topics") ||
			!strings.HasPrefix(got["backwards"], "decode: not-after") || !strings.HasPrefix(got["late"], "expired: ") {
			t.Errorf("got %v handed out and dead letters %v, want none and far unsupported, backwards not decoded, late expired", n.values(), got)
		}
	})
}

// A job whose not-after passes while it is in a retry topic goes to the dead letters then,
// with all its attempts, and is not handed out.
func TestAJobInARetryTopicExpires(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		begin := time.Now()
		w.produce("jobs", job.Record{Value: []byte("v"), Headers: []job.Header{header("not-after", begin.Add(7*time.Second).Format(time.RFC3339Nano))}})
		n := w.start(withRetryTopics(w.options(), consumer.OrderNone, 5*time.Second), func(d *consumer.Delivery) {
			d.RetryLater(time.Now().Add(9*time.Second), deadletter.Failure{Class: deadletter.ClassUnavailable, Calls: 4, Failures: 1})
		})
		w.until("it is dead", func() bool { return len(w.letters("jobs")) == 1 })
		if took := time.Since(begin); took < 7*time.Second || took > 8*time.Second {
			t.Errorf("it took %v, want 7s", took)
		}
		h := headerMap(w.letters("jobs")[0])
		if h["x-error-class"] != "expired" || h["x-attempt"] != "4" || h["x-not-before"] != "" || h["x-original-topic"] != "jobs" || len(n.values()) != 1 {
			t.Errorf("got %v handed out and headers %v, want one hand-out, and expired after 4 attempts", n.values(), h)
		}
		w.ok(n.end())
	})
}
