package job_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"dispatcher/job"
)

func now() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func record(value string, headers ...string) job.Record {
	r := job.Record{Topic: "jobs", Partition: 3, Offset: 42, Value: []byte(value)}
	for i := 0; i < len(headers); i += 2 {
		r.Headers = append(r.Headers, job.Header{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return r
}

func TestDecodeID(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", job.MaxIDBytes)
	for _, c := range []struct {
		name string
		rec  job.Record
		want string
	}{
		{"place", record("hello"), "jobs/3/42"},
		{"header", record(`{"id":"a"}`, "Idempotency-KEY", "b"), "b"},
		{"last header wins", record("", "idempotency-key", "a", "IDEMPOTENCY-KEY", "b"), "b"},
		{"json string", record(`{"id":"a"}`), "a"},
		{"json number", record(`{"to":1,"id":-12.5e3 }`), "-12.5e3"},
		{"json later", record(` {"a":{"id":"no"},"b":["id",{"id":1}],"c":"\"id\":","d":null,"id" : "yes"}`), "yes"},
		{"json escaped value", record(`{"id":"a\u00e9\"b"}`), `aé"b`},
		{"json sign for what is no text", record(`{"id":"\uFFFD"}`), "\uFFFD"},
		{"json what looks like an escape", record(`{"id":"\\ud800"}`), `\ud800`},
		{"json pair", record(`{"id":"\ud83d\ude00"}`), "😀"},
		{"json escaped key", record(`{"\u0069\u0064":"a"}`), "a"},
		{"json escaped quote at the end of a key", record(`{"id\"":"no","id\\":"no"}`), "jobs/3/42"},
		{"json first of two", record(`{"id":"a","id":"b"}`), "a"},
		{"json empty", record(`{"id":""}`), "jobs/3/42"},
		{"json null", record(`{"id":null}`), "jobs/3/42"},
		{"json object as id", record(`{"id":{"id":"a"}}`), "jobs/3/42"},
		{"json nothing", record(`{}`), "jobs/3/42"},
		{"json array", record(`[{"id":"a"}]`), "jobs/3/42"},
		{"json no number", record(`{"id":1-2}`), "jobs/3/42"},
		{"json cut", record(`{"a":"`), "jobs/3/42"},
		{"json cut in the id", record(`{"id":"a`), "jobs/3/42"},
		{"json broken after the id", record(`{"id":"a",`), "a"},
		{"longest", record(`{"id":"` + long + `"}`), long},
		{"replayed", record("x", "x-original-topic", "old", "X-Original-Partition", "1", "x-original-offset", "7"), "old/1/7"},
		{"replayed with its own id", record(`{"id":5}`, "x-original-topic", "old", "x-original-partition", "1", "x-original-offset", "7"), "5"},
		{"replayed from the longest topic", record("x", "x-original-topic", strings.Repeat("t", 249), "x-original-partition", "1", "x-original-offset", "7"), strings.Repeat("t", 249) + "/1/7"},
		{"origin's topic is none", record("x", "x-original-topic", "my topic", "x-original-partition", "1", "x-original-offset", "7"), "jobs/3/42"},
		{"origin's partition is none", record("x", "x-original-topic", "t", "x-original-partition", "-1", "x-original-offset", "1"), "jobs/3/42"},
		{"origin's offset is none", record("x", "x-original-topic", "t", "x-original-partition", "1", "x-original-offset", "x"), "jobs/3/42"},
		{"half an origin", record("x", "x-original-topic", "old"), "jobs/3/42"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j, err := job.Decode(c.rec, job.Limits{})
			if err != nil || j.ID != c.want {
				t.Errorf("got id %q and error %v, want %q", j.ID, err, c.want)
			}
			if from := sourceOf(c.rec, c.want); j.IDFrom != from {
				t.Errorf("got the source %d, want %d", j.IDFrom, from)
			}
		})
	}
}

// sourceOf is where the id of a record of TestDecodeID comes from: all of its ids
// that hold a / are places.
func sourceOf(r job.Record, id string) job.IDSource {
	for _, h := range r.Headers {
		if strings.EqualFold(h.Key, job.HeaderIdempotencyKey) {
			return job.IDGiven
		}
	}
	if strings.Contains(id, "/") {
		return job.IDPlace
	}
	return job.IDValue
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", job.MaxIDBytes+1)
	for _, c := range []struct {
		name   string
		rec    job.Record
		reason job.Reason
		field  string
	}{
		{"no value", job.Record{}, job.ReasonDecode, "value"},
		{"too large", record(strings.Repeat("x", 1001)), job.ReasonDecode, "value"},
		{"half a surrogate pair", record(`{"id":"a\ud800"}`), job.ReasonDecode, "id"},
		{"two first halves", record(`{"id":"a\ud800\ud83d"}`), job.ReasonDecode, "id"},
		{"no text beside an escape", record("{\"id\":\"a\\/\xe9\"}"), job.ReasonDecode, "id"},
		{"empty id", record("", "idempotency-key", ""), job.ReasonDecode, "idempotency-key"},
		{"long id", record("", "idempotency-key", long), job.ReasonDecode, "idempotency-key"},
		{"newline in id", record("", "idempotency-key", "a\nb"), job.ReasonDecode, "idempotency-key"},
		{"delete in id", record("", "idempotency-key", "a\x7f"), job.ReasonDecode, "idempotency-key"},
		{"line separator in id", record("", "idempotency-key", "a\u2028"), job.ReasonDecode, "idempotency-key"},
		{"C1 control in id", record("", "idempotency-key", "a\u0085"), job.ReasonDecode, "idempotency-key"},
		{"id not UTF-8", record("", "idempotency-key", "a\xff"), job.ReasonDecode, "idempotency-key"},
		{"long json id", record(`{"id":"` + long + `"}`), job.ReasonDecode, "id"},
		{"long json number", record(`{"id":` + strings.Repeat("1", 257) + `}`), job.ReasonDecode, "id"},
		{"newline in json id", record(`{"id":"a\nb"}`), job.ReasonDecode, "id"},
		{"raw newline in json id", record("{\"id\":\"a\nb\"}"), job.ReasonDecode, "id"},
		{"bad escape in json id", record(`{"id":"a\qb"}`), job.ReasonDecode, "id"},
		{"not-before", record("", "not-before", "soon"), job.ReasonDecode, "not-before"},
		{"not-after", record("", "not-after", "2026-01-01"), job.ReasonDecode, "not-after"},
		{"cost", record("", "cost", "x"), job.ReasonUnsupported, "cost"},
		{"cost 0", record("", "cost", "0"), job.ReasonUnsupported, "cost"},
		{"cost below 0", record("", "cost", "-1"), job.ReasonUnsupported, "cost"},
		{"cost of half a unit", record("", "cost", "1.5"), job.ReasonUnsupported, "cost"},
		{"no cost", record("", "cost", ""), job.ReasonUnsupported, "cost"},
		{"content type", record("", "content-type", "a\r\nb"), job.ReasonDecode, "content-type"},
		{"traceparent", record("", "traceparent", strings.Repeat("0", 1025)), job.ReasonDecode, "traceparent"},
		{"cost above all", record("", "cost", "1000000001"), job.ReasonUnsupported, "cost"},
		{"broken before unsupported", record("", "cost", "x", "not-before", "x"), job.ReasonDecode, "not-before"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j, err := job.Decode(c.rec, job.Limits{MaxBytes: 1000})
			var e *job.Error
			if !errors.As(err, &e) || e.Reason != c.reason || e.Field != c.field {
				t.Errorf("got %v, want reason %s of field %s", err, c.reason, c.field)
			}
			if j.Topic != c.rec.Topic || j.ID != "" {
				t.Errorf("got job %+v, want the record alone", j)
			}
		})
	}
}

func TestDecodeReadsHeaders(t *testing.T) {
	t.Parallel()
	j, err := job.Decode(record("x", "LANE", "", "Cost", "6", "not-before", "2026-03-01T12:00:00Z", "not-after", "2026-03-01T14:00:00+01:00",
		"content-type", "text/plain", "traceparent", "00-1-2-01", "other", "\xff"), job.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if !j.NotBefore.Equal(now()) || !j.NotAfter.Equal(now().Add(time.Hour)) || j.Cost != 6 || j.Lane != "" ||
		j.ContentType != "text/plain" || j.Traceparent != "00-1-2-01" || len(j.Headers) != 7 {
		t.Errorf("got %+v", j)
	}
}

// A producer may have a header cost of its own.
func TestAnExpressionReplacesTheHeaderCost(t *testing.T) {
	t.Parallel()
	for _, cost := range []string{"0.0075", "0", "12 EUR", "", "\xff", strings.Repeat("9", 2000)} {
		j, err := job.Decode(record("x", "cost", cost, "lane", "otp"), job.Limits{IgnoreCost: true})
		if err != nil || j.Cost != 1 || j.Lane != "otp" || len(j.Headers) != 2 {
			t.Errorf("cost %.20q: got %+v, %v; want a job of 1 unit with all its headers", cost, j, err)
		}
	}
}

// An id may be a phone number, so no error may quote one.
func TestErrorsHoldNoValues(t *testing.T) {
	t.Parallel()
	for _, h := range []string{"idempotency-key", "cost", "not-before", "not-after", "lane"} {
		_, err := job.Decode(record("", h, "+491701234567\n"), job.Limits{})
		if err == nil || strings.Contains(err.Error(), "4917") {
			t.Errorf("%s: got %v, want an error without the value", h, err)
		}
	}
}

func TestDecodeAllocates(t *testing.T) {
	withID, without := record(`{"to":"x","text":"hello","id":"m-1"}`, "content-type", "application/json"), record(`{"to":"x","text":"hello"}`)
	without.Partition, without.Offset = 1234, 1<<40 // small numbers take no allocation
	for _, c := range []struct {
		name string
		rec  job.Record
		want float64
	}{
		{"with an id", withID, 2},     // the id and the content type
		{"without an id", without, 1}, // its place
	} {
		n := testing.AllocsPerRun(100, func() {
			if _, err := job.Decode(c.rec, job.Limits{}); err != nil {
				t.Fatal(err)
			}
		})
		if n > c.want {
			t.Errorf("%s: got %v allocations a job, want at most %v", c.name, n, c.want)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	rec := record(`{"to":"x","text":"`+strings.Repeat("hello ", 30)+`","id":"m-1"}`, "content-type", "application/json")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := job.Decode(rec, job.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
