package node

import (
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/dedup"
	"dispatcher/job"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
)

// What a done notes of a dead job comes back as it was, and fits into the dedup store.
// The numbers are Redis's memory: they must not change.
func TestNotesComeBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		class  consumer.Class
		status int
		want   dedup.Outcome
	}{
		{consumer.ClassPermanent, 400, 1400},
		{consumer.ClassPermanent, 0, 1000},
		{consumer.ClassExhausted, 503, 2503},
		{consumer.ClassUnknown, 0, 3000},
		{consumer.ClassExhausted, 999, 2999},
	} {
		o := note(c.class, c.status)
		class, r := noted(o)
		if o != c.want || class != c.class || r.Status != c.status || r.Err == nil {
			t.Errorf("%s, %d: got %d, which means %s, %d, %v", c.class, c.status, o, class, r.Status, r.Err)
		}
	}
	if o := note(consumer.ClassUnknown, 1<<20); o > dedup.MaxOutcome || o == noteAccepted {
		t.Errorf("got %d of a status that can't be, want at most %d", o, dedup.MaxOutcome)
	}
	if class, _ := noted(dedup.MaxOutcome); class != consumer.ClassUnknown {
		t.Errorf("got %s of a note of a later release, want unknown", class)
	}
}

// However high the rate is, with the dedup store a job is handed out so early that its
// claim is there before its slot.
func TestALineThatClaimsHandsOutEarlier(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cap           int64
		plain, claims time.Duration
	}{
		{10, near, nearClaimed},
		{1000, near, nearClaimed},
		{10_000, 1_616 * time.Microsecond, leastClaimed},
	} {
		lim, err := throttle.New(throttle.Options{
			Namespace: "ns", Name: "provider", Node: "n", Waiting: func() int { return 0 },
			Limit: limit.Spec{Scope: limit.ScopeNode, Terms: limit.Terms{Contract: limit.Contract{
				Cap: c.cap, Window: time.Second, Burst: 1, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: 200 * time.Millisecond,
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		plain, claims := (&line{limiter: lim}).lead(), (&line{limiter: lim, claims: true}).lead()
		if plain.Round(time.Microsecond) != c.plain || claims != c.claims {
			t.Errorf("%d a second: got %v, and %v with claims; want %v and %v", c.cap, plain, claims, c.plain, c.claims)
		}
	}
}

// An id from the header names a job everywhere, one from the value within the
// topic that the job was first written to, a place together with its time. Each
// replay is another job. What names a job survives a retry topic.
func TestWhatNamesAJobToTheDedup(t *testing.T) {
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
