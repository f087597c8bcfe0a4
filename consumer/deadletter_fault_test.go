package consumer_test

import (
	"bytes"
	"strings"
	"sync/atomic"
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

// bad is a record that is no job.
func bad(value string) job.Record {
	return job.Record{Value: []byte(value), Headers: []job.Header{{Key: "lane", Value: []byte("x")}}}
}

// A dead letter always fits: where the value alone is not too large, keys and headers are
// left out as well. The origin stays.
func TestDeadLetterThatNeverFits(t *testing.T) {
	t.Parallel()
	large := noise('x', 50_000)
	for name, c := range map[string]struct {
		rec         job.Record
		key, origin string
	}{
		"headers": {job.Record{Key: []byte("k"), Value: []byte("v"), Headers: []job.Header{{Key: "foreign", Value: large}}}, "k", "jobs"},
		"key":     {job.Record{Key: large, Value: []byte("v"), Headers: []job.Header{{Key: "x-original-topic", Value: []byte("half")}}}, "", "jobs"},
		"both with an origin": {job.Record{Key: large, Value: large, Headers: []job.Header{
			{Key: "X-Original-Topic", Value: []byte("old")},
			{Key: "x-original-partition", Value: []byte("7")},
			{Key: "x-original-offset", Value: []byte("9")},
			{Key: "x-original-timestamp", Value: large},
			{Key: "foreign", Value: large},
		}}, "", "old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				w.produce("jobs", c.rec)
				w.refuse("jobs.dlq", 8000)
				n := w.start(w.options(), func(d *consumer.Delivery) {
					go d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent}, consumer.Outcome{})
				})
				w.waitFor("jobs", 0, 1)
				w.ok(n.end())
				m := w.letters("jobs")[0]
				got := map[string]string{}
				for _, h := range m.Headers {
					got[strings.ToLower(h.Key)] = string(h.Value)
				}
				if string(m.Key) != c.key || len(m.Value) != 0 || got["x-truncated"] != "true" || got["x-original-topic"] != c.origin ||
					got["x-original-offset"] == "" || got["x-error-class"] != "permanent" {
					t.Errorf("got key of %d bytes, value of %d and headers %v; want key %q, no value, and origin %s", len(m.Key), len(m.Value), m.Headers, c.key, c.origin)
				}
			})
		})
	}
}

// A dead-letter topic that can't be written holds up no other topic.
func TestDeadLettersOfAnotherTopicGoOn(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.dlq", Err: kerr.NotEnoughReplicas, Count: -1})
		w.produce("jobs", bad("1"))
		o := w.options()
		o.Topics = []string{"jobs", "more"}
		n := w.start(o, settled)
		w.until("the first topic's dead letter is refused", func() bool { return fault.Hits() > 0 })
		w.produce("more", bad("2"))
		w.waitFor("more", 0, 1)
		w.ok(n.end())
		if got, _ := w.committed("jobs", 0); got != 0 {
			t.Errorf("got offset %d committed, want 0", got)
		}
	}, "jobs", "more")
}

// Rejected jobs count as memory until they are written, headers included, and fetching stops
// for them.
func TestRejectedJobsAreBounded(t *testing.T) {
	t.Parallel()
	const size = 600_000
	for name, rec := range map[string]job.Record{
		"values":  bad(strings.Repeat("x", size)),
		"headers": {Headers: []job.Header{{Key: "lane", Value: []byte("x")}, {Key: "h", Value: bytes.Repeat([]byte("x"), size)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.dlq", Err: kerr.NotEnoughReplicas, Count: -1})
				for range 20 {
					w.produce("jobs", rec)
				}
				n := w.start(w.options(), settled)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if open := n.c.Status().Partitions[0].Open; open < 1 || open > 9 {
					t.Errorf("got %d records of %d bytes in memory, want at most 4 MiB and one more", open, size)
				}
				fault.Remove()
				w.waitFor("jobs", 0, 20)
				w.ok(n.end())
			})
		})
	}
}

// Once the consumer stops, no dead letter is begun for a record that is no job.
func TestNoDeadLetterIsBegunAfterTheStop(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.dlq", Err: kerr.NotEnoughReplicas, Count: -1})
		w.produce("jobs", bad("1"))
		n := w.start(w.options(), settled)
		w.until("it is refused", func() bool { return fault.Hits() > 0 })
		w.produce("jobs", bad("2"), bad("3"))
		w.until("the others wait", func() bool { return n.c.Status().Partitions[0].Open == 3 })
		before, began := fault.Hits(), time.Now()
		w.ok(n.end())
		if took := time.Since(began); fault.Hits() != before || took > time.Second {
			t.Errorf("got %d writes more and a stop of %v, want none and less than 1s", fault.Hits()-before, took)
		}
		if got, _ := w.committed("jobs", 0); got != 0 {
			t.Errorf("got offset %d committed, want 0", got)
		}
	})
}

// Dead letters that hang in the network are awaited until the drain ends, all of them
// together. Then their jobs stay open. None is sent twice.
func TestHangingDeadLettersShareOneDrain(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		var all []job.Record
		for range 5 {
			all = append(all, bad(string(noise('x', 400_000)))) // no two fit in a batch with a third
		}
		w.produce("jobs", all...)
		var lost atomic.Int32
		o := w.options()
		o.Dial = w.lossy(func(key int16, _ int) bool {
			if key != kmsg.Produce.Int16() {
				return false
			}
			lost.Add(1)
			return true
		})
		n := w.start(o, settled)
		w.until("the first one hangs", func() bool { return lost.Load() == 1 })
		began := time.Now()
		w.ok(n.end())
		if took := time.Since(began); took > 8*time.Second || lost.Load() != 1 {
			t.Errorf("got %d requests and a stop of %v, want 1 and at most the drain of 7s, and a little", lost.Load(), took)
		}
		if got, _ := w.committed("jobs", 0); got > 0 {
			t.Errorf("got offset %d committed, want none: no dead letter was acknowledged", got)
		}
	})
}

// An origin of which only a part is given is replaced by the record's own place.
func TestDeadLetterWithHalfAnOrigin(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string][]job.Header{
		"topic alone": {{Key: "x-original-topic", Value: []byte("old")}},
		"no topic":    {{Key: "x-original-partition", Value: []byte("7")}, {Key: "x-original-offset", Value: []byte("9")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				w.produce("jobs", job.Record{Value: []byte("x"), Headers: headers})
				n := w.start(w.options(), func(d *consumer.Delivery) {
					d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent}, consumer.Outcome{})
				})
				w.waitFor("jobs", 0, 1)
				w.ok(n.end())
				m := w.letters("jobs")[0]
				got := headerMap(m)
				if got["x-original-topic"] != "jobs" || got["x-original-partition"] != "0" || got["x-original-offset"] != "0" || len(got) != len(m.Headers) {
					t.Errorf("got headers %v, want the record's own place, once", m.Headers)
				}
			})
		})
	}
}

// Jobs that no worker gets are written to several topics. One that can't be written holds up no job that goes to another, also where
// that comes later.
func TestDivertedJobsOfAnotherTopicGoOn(t *testing.T) {
	t.Parallel()
	unreadable := job.Record{Value: []byte("x"), Headers: []job.Header{header("cost", "x")}}
	for topic, first := range map[string]func() job.Record{
		"jobs.dlq":      func() job.Record { return unreadable },
		"jobs.retry.1h": func() job.Record { return scheduled("first", time.Now().Add(2*time.Hour)) },
		"jobs.results":  func() job.Record { return bad("first") },
	} {
		t.Run(topic, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: kerr.NotEnoughReplicas, Count: -1})
				o := withRetryTopics(w.options(), consumer.OrderNone, time.Hour)
				o.Results = true
				w.produce("jobs", first())
				n := w.start(o, nil)
				w.until("the first one is refused", func() bool { return fault.Hits() > 0 })
				w.produce("jobs", unreadable, scheduled("later", time.Now().Add(2*time.Hour)))
				for _, other := range []string{"jobs.dlq", "jobs.retry.1h"} {
					if other != topic {
						w.until(other+" has its record", func() bool { return len(w.records(other)) == 1 })
					}
				}
				fault.Remove()
				w.until("all offsets are committed", func() bool { got, _ := w.committed("jobs", 0); return got == 3 })
				w.ok(n.end())
			})
		})
	}
}
