package worker

import (
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/internal/dedup"
	"dispatcher/job"
)

// The outcome of a dead job is read as it was recorded, and fits into the dedup store.
// The numbers stand in Redis: they must not change.
func TestOutcomesAreReadAsRecorded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class  deadletter.Class
		status int
		want   dedup.Outcome
	}{
		{deadletter.ClassPermanent, 400, 1400},
		{deadletter.ClassPermanent, 0, 1000},
		{deadletter.ClassExhausted, 503, 2503},
		{deadletter.ClassUnknown, 0, 3000},
		{deadletter.ClassExhausted, 999, 2999},
	} {
		o := outcomeOf(c.class, c.status)
		class, r := recorded(o)
		if o != c.want || class != c.class || r.Status != c.status || r.Err == nil {
			t.Errorf("%s, %d: got %d, which means %s, %d, %v", c.class, c.status, o, class, r.Status, r.Err)
		}
	}
	if o := outcomeOf(deadletter.ClassUnknown, 1<<20); o > dedup.MaxOutcome || o == outcomeAccepted {
		t.Errorf("got %d of a status that can't be, want at most %d", o, dedup.MaxOutcome)
	}
	if class, _ := recorded(dedup.MaxOutcome); class != deadletter.ClassUnknown {
		t.Errorf("got %s of an outcome of a later release, want unknown", class)
	}
}

// An id from the header names a job everywhere. An id from the value counts within the
// topic that the job was first written to, and a place together with its timestamp. Each
// replay is another job. The name stays the same through a retry topic.
func TestAJobHasOneNameInTheDedupStore(t *testing.T) {
	t.Parallel()
	first := time.UnixMilli(1_700_000_000_000)
	delivery := func(value, topic string, at time.Time, headers ...string) *consumer.Delivery {
		r := job.Record{Topic: topic, Offset: 1, Time: at, Value: []byte(value)}
		for i := 0; i < len(headers); i += 2 {
			r.Headers = append(r.Headers, job.Header{Key: headers[i], Value: []byte(headers[i+1])})
		}
		j, err := job.Decode(r, job.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return &consumer.Delivery{Job: j}
	}
	later := first.Add(time.Hour)
	fromA := []string{
		"x-original-topic", "a", "x-original-partition", "0", "x-original-offset", "1",
		"x-original-timestamp", first.UTC().Format(time.RFC3339Nano),
	}
	own := func(more ...string) []string { return append([]string{"idempotency-key", "1"}, more...) }
	event := []string{"ce_specversion", "1.0", "ce_id", "1", "ce_source", "s", "ce_type", "t"}
	names := map[string]string{}
	for _, c := range []struct {
		name string
		same []*consumer.Delivery // deliveries of one job
	}{
		{"header", []*consumer.Delivery{
			delivery("v", "a", first, own()...), delivery(`{"id":2}`, "b", later, own()...),
			delivery("v", "a.retry.5s", later, own(fromA...)...),
		}},
		{"event", []*consumer.Delivery{
			delivery("v", "a", first, event...), delivery(`{"id":1}`, "b", later, event...),
			delivery(`{"specversion":"1.0","id":"1","source":"s","type":"t"}`, "c", later, "content-type", "application/cloudevents+json"),
		}},
		{"value on a", []*consumer.Delivery{
			delivery(`{"id":1}`, "a", first), delivery(`{"id":"1"}`, "a", later), delivery(`{"id":1}`, "a.retry.5s", later, fromA...),
			delivery(`{"id":1}`, "b", later, fromA...),
		}},
		{"value on b", []*consumer.Delivery{delivery(`{"id":1}`, "b", first)}},
		{"value on a's retry topic", []*consumer.Delivery{delivery(`{"id":1}`, "a.retry.5s", first)}},
		{"place", []*consumer.Delivery{delivery("v", "a", first), delivery("v", "a.retry.5s", later, fromA...)}},
		{"the same place later", []*consumer.Delivery{delivery("v", "a", first.Add(time.Millisecond))}},
		{"header, replayed", []*consumer.Delivery{delivery("v", "a", later, own(append(fromA, "x-redrive", "1")...)...)}},
		{"value, replayed", []*consumer.Delivery{delivery(`{"id":1}`, "a", later, append(fromA, "x-redrive", "1")...)}},
		{"value, replayed twice", []*consumer.Delivery{delivery(`{"id":1}`, "a", later, append(fromA, "x-redrive", "2")...)}},
	} {
		id := entryID(c.same[0])
		if other, taken := names[id]; taken {
			t.Errorf("%s has the name of %s: %q", c.name, other, id)
		}
		names[id] = c.name
		for i, d := range c.same {
			if got := entryID(d); got != id {
				t.Errorf("%s, delivery %d: got the name %q, want %q", c.name, i, got, id)
			}
		}
	}
}
