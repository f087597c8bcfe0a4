package consumer_test

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/job"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDeadLetterKeepsTheRecord(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		rec := job.Record{
			Key: []byte{0, 0xff}, Value: []byte{1, 2, 0xfe}, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
			Headers: []job.Header{{Key: "a", Value: []byte{0xff}}, {Key: "X-Error-Code", Value: []byte("old")}, {Key: "a", Value: nil}},
		}
		w.produce("jobs", rec)
		o := w.options()
		o.Node = "n1"
		n := w.start(o, func(d *consumer.Delivery) {
			d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent, Code: "422", Message: strings.Repeat("é", 1000), Calls: 3}, consumer.Outcome{})
		})
		w.until("it is settled", func() bool { offset, _ := w.committed("jobs", 0); return offset == 1 })
		w.ok(n.end())
		letters := w.letters("jobs")
		if len(letters) != 1 {
			t.Fatalf("got %d dead letters, want 1", len(letters))
		}
		m := letters[0]
		if !bytes.Equal(m.Key, rec.Key) || !bytes.Equal(m.Value, rec.Value) {
			t.Errorf("got key %x and value %x, want those of the record", m.Key, m.Value)
		}
		if m.Headers[0].Key != "a" || !bytes.Equal(m.Headers[0].Value, []byte{0xff}) || m.Headers[1].Key != "a" {
			t.Errorf("got headers %v, want the record's first", m.Headers)
		}
		got := headerMap(m)
		for _, when := range []string{"x-failed-at", "x-first-failed-at"} {
			if _, err := time.Parse(time.RFC3339, got[when]); err != nil {
				t.Errorf("%s: got %v, want a time in RFC 3339", when, err)
			}
			delete(got, when)
		}
		delete(got, "a")
		want := map[string]string{
			"x-original-topic": "jobs", "x-original-partition": "0", "x-original-offset": "0", "x-original-timestamp": "2026-01-02T03:04:05Z",
			"x-consumer-group": "g.jobs", "x-attempt": "3", "x-error-class": "permanent", "x-error-code": "422",
			"x-error-message": strings.Repeat("é", 512), "x-node": "n1",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
	})
}

// The origin in the record's headers stays, and the id with it.
func TestDeadLetterKeepsItsOrigin(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", job.Record{Value: []byte("x"), Headers: []job.Header{
			{Key: "x-original-topic", Value: []byte("old")},
			{Key: "x-original-partition", Value: []byte("7")},
			{Key: "x-original-offset", Value: []byte("9")},
			{Key: "x-original-timestamp", Value: []byte("2020-01-01T00:00:00Z")},
			{Key: "x-first-failed-at", Value: []byte("2020-01-01T00:00:01Z")},
			{Key: "x-attempt", Value: []byte("5")},
		}})
		var id string
		n := w.start(w.options(), func(d *consumer.Delivery) {
			id = d.Job.ID
			d.Dead(deadletter.Failure{Class: deadletter.ClassExhausted, Calls: 6}, consumer.Outcome{})
		})
		w.until("it is settled", func() bool { offset, _ := w.committed("jobs", 0); return offset == 1 })
		w.ok(n.end())
		letter := w.letters("jobs")[0]
		got := headerMap(letter)
		if id != "old/7/9" || got["x-original-topic"] != "old" || got["x-original-offset"] != "9" ||
			got["x-first-failed-at"] != "2020-01-01T00:00:01Z" || got["x-attempt"] != "6" || len(got) != len(letter.Headers) {
			t.Errorf("got id %s and headers %v, want id old/7/9 and the origin as it was", id, letter.Headers)
		}
	})
}

// Records that are no job go to the dead letters without a worker, and the partition goes
// on.
func TestBadRecordsGoToTheDeadLetters(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs",
			job.Record{Value: []byte("1"), Headers: []job.Header{{Key: "cost", Value: []byte("0")}}},
			job.Record{Value: []byte("2"), Headers: []job.Header{{Key: "not-before", Value: []byte("2999-01-01T00:00:00Z")}}},
			job.Record{Value: []byte("good")},
			job.Record{Value: []byte("3"), Headers: []job.Header{{Key: "lane", Value: []byte("otp")}}},
			job.Record{Value: []byte("4"), Headers: []job.Header{{Key: "idempotency-key", Value: []byte("a\nb")}}},
			job.Record{Value: bytes.Repeat([]byte("x"), 101)},
		)
		o := w.options()
		o.MaxJobBytes = 100
		n := w.start(o, settled)
		w.until("all are settled", func() bool { offset, _ := w.committed("jobs", 0); return offset == 6 })
		w.ok(n.end())
		classes := map[string]string{}
		for _, m := range w.letters("jobs") {
			classes[headerMap(m)["x-original-offset"]] = headerMap(m)["x-error-class"]
		}
		want := map[string]string{"0": "unsupported", "1": "unsupported", "3": "unsupported", "4": "decode", "5": "decode"}
		if diff := cmp.Diff(want, classes); diff != "" || len(n.values()) != 1 {
			t.Errorf("handed out %v; classes by offset (-want +got):\n%s", n.values(), diff)
		}
	})
}

func TestAnExpressionReplacesTheHeaderCost(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", job.Record{Value: []byte("1"), Headers: []job.Header{{Key: "cost", Value: []byte("0.0075")}}})
		o := w.options()
		o.IgnoreCost = true
		n := w.start(o, settled)
		w.until("it is settled", func() bool { offset, _ := w.committed("jobs", 0); return offset == 1 })
		w.ok(n.end())
		if letters := w.letters("jobs"); len(n.values()) != 1 || len(letters) != 0 {
			t.Errorf("got %v handed out and %d dead letters, want the job handed out", n.values(), len(letters))
		}
	})
}

// Many bad records do not delay a good one for long.
func TestManyBadRecords(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		var bad []job.Record
		for i := range 3000 {
			bad = append(bad, job.Record{Value: []byte(strconv.Itoa(i)), Headers: []job.Header{{Key: "lane", Value: []byte("x")}}})
		}
		w.produce("jobs", append(bad, job.Record{Value: []byte("good")})...)
		n := w.start(w.options(), settled)
		w.until("all are settled", func() bool { offset, _ := w.committed("jobs", 0); return offset == 3001 })
		w.ok(n.end())
		if got := len(w.letters("jobs")); got != 3000 || len(n.values()) != 1 {
			t.Errorf("got %d dead letters and %d jobs, want 3000 and 1", got, len(n.values()))
		}
	})
}

// A dead letter that is too large for the broker is truncated and names its origin. One that
// shared its batch is not truncated.
func TestDeadLetterTooLarge(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		for i := range 3 {
			w.produce("jobs", job.Record{Value: noise('a'+byte(i), 300_000)})
		}
		w.refuse("jobs.dlq", 350_000)
		w.produce("jobs", job.Record{Value: noise('y', 900_000)})
		n := w.start(w.options(), func(d *consumer.Delivery) {
			go d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent}, consumer.Outcome{})
		})
		w.until("all are settled", func() bool { offset, _ := w.committed("jobs", 0); return offset == 4 })
		w.ok(n.end())
		intact, truncated := 0, 0
		for _, m := range w.letters("jobs") {
			h := headerMap(m)
			switch {
			case len(m.Value) == 300_000 && h["x-truncated"] == "":
				intact++
			case m.Value[0] == 'y' && len(m.Value) < 300_000 && h["x-truncated"] == "true" && h["x-original-size"] == "900000" && h["x-original-offset"] == "3":
				truncated++
			}
		}
		if intact != 3 || truncated != 1 {
			t.Errorf("got %d intact dead letters and %d truncated ones, want 3 and 1", intact, truncated)
		}
	})
}

// A dead letter that its topic refuses however small it is holds its job, and a node says so. It is
// written once an operator lets the topic take it.
func TestADeadLetterThatItsTopicNeverTakes(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 1)...)
		fault := w.refuse("jobs.dlq", 10)
		var log bytes.Buffer
		o := w.options()
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		n := w.start(o, func(d *consumer.Delivery) {
			go d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent}, consumer.Outcome{})
		})
		time.Sleep(30 * time.Second)
		if got := n.c.Status().InFlight; got != 1 {
			t.Errorf("got %d jobs in flight while the topic refuses, want 1", got)
		}
		fault.Remove()
		w.waitFor("jobs", 0, 1)
		w.ok(n.end())
		if got := len(w.letters("jobs")); got != 1 {
			t.Errorf("got %d dead letters, want 1", got)
		}
		if got := log.String(); !strings.Contains(got, "could not be written") || !strings.Contains(got, "Message Size Too Large") {
			t.Errorf("got the log %q, want it to name the refusal", got)
		}
	})
}

// While the dead-letter topic can't be written the job stays open. The dead letter is written
// when the topic is back.
func TestDeadLetterWaitsForKafka(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 2)...)
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.dlq", Err: kerr.NotEnoughReplicas, Count: -1})
		n := w.start(w.options(), func(d *consumer.Delivery) {
			if string(d.Job.Value) == "0" {
				go d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent}, consumer.Outcome{})
				return
			}
			d.Done(consumer.Outcome{})
		})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if offset, metadata := w.committed("jobs", 0); offset != 0 || metadata == "" {
			t.Errorf("got offset %d and metadata %q committed, want 0 and a bitmap", offset, metadata)
		}
		fault.Remove()
		w.until("it is settled", func() bool { offset, _ := w.committed("jobs", 0); return offset == 2 })
		w.ok(n.end())
		if got := len(w.letters("jobs")); got != 1 {
			t.Errorf("got %d dead letters, want 1", got)
		}
	})
}

// A stop while the dead-letter topic can't be written releases the job.
func TestAJobWithoutItsDeadLetterIsReleasedAtTheStop(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 1)...)
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs.dlq", Err: kerr.NotEnoughReplicas, Count: -1})
		n := w.start(w.options(), func(d *consumer.Delivery) {
			go d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent}, consumer.Outcome{})
		})
		w.until("it is in flight", func() bool { return len(n.values()) == 1 })
		began := time.Now()
		w.ok(n.end())
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the stop took %v, want less than half the drain and a little", took)
		}
		if offset, _ := w.committed("jobs", 0); offset != 0 {
			t.Errorf("got offset %d committed, want 0", offset)
		}
	})
}

// A call that ends while the node stops leaves its dead letter all the same: the
// job is not called again.
func TestADeadLetterIsWrittenDuringTheDrain(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 1)...)
		n := w.start(w.options(), func(d *consumer.Delivery) {
			go func() {
				<-d.Context().Done()
				time.Sleep(time.Second) // the rest of its call
				d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent}, consumer.Outcome{})
			}()
		})
		w.until("it is in flight", func() bool { return len(n.values()) == 1 })
		w.ok(n.end())
		if got := len(w.letters("jobs")); got != 1 {
			t.Errorf("got %d dead letters, want 1", got)
		}
		if offset, _ := w.committed("jobs", 0); offset != 1 {
			t.Errorf("got offset %d committed, want 1: the job is called again", offset)
		}
	})
}
