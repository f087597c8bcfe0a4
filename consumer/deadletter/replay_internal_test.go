package deadletter

import (
	"testing"

	"dispatcher/job"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A replay drops exactly the headers that a dead letter adds, and raises the number of redrives.
func TestAReplayRestoresTheJob(t *testing.T) {
	t.Parallel()
	header := rapid.Custom(func(t *rapid.T) job.Header {
		name := rapid.SampledFrom([]string{"a", "content-type", "X-Mine", "x-redrive", "idempotency-key", ""}).Draw(t, "name")
		return job.Header{Key: name, Value: rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "value")}
	})
	rapid.Check(t, func(t *rapid.T) {
		rec := job.Record{
			Topic: "jobs", Partition: 3, Offset: 7,
			Key:     rapid.SliceOf(rapid.Byte()).Draw(t, "key"),
			Value:   rapid.SliceOf(rapid.Byte()).Draw(t, "value"),
			Headers: rapid.SliceOfN(header, 0, 6).Draw(t, "headers"),
		}
		letter := ReadLetter(rec)
		before := letter.Redrives
		for range rapid.IntRange(1, 3).Draw(t, "times") {
			dead := rec
			for _, name := range []string{
				headerGroup, HeaderAttempt, "X-First-Failed-At", headerFailedAt, headerErrorClass, headerErrorCode,
				headerErrorMessage, headerNode, "x-error-other", HeaderNotBefore, HeaderFailures,
			} {
				dead.Headers = append(dead.Headers, job.Header{Key: name, Value: []byte("x")})
			}
			letter = ReadLetter(dead)
			m := JobOf(&letter)
			rec.Headers = nil
			for _, h := range m.Headers {
				rec.Headers = append(rec.Headers, job.Header{Key: h.Key, Value: h.Value})
			}
			if string(m.Key) != string(rec.Key) || string(m.Value) != string(rec.Value) {
				t.Fatalf("got key %q and value %q, want %q and %q", m.Key, m.Value, rec.Key, rec.Value)
			}
			again := ReadLetter(rec)
			if before++; again.Redrives != before {
				t.Fatalf("got %d redrives, want %d", again.Redrives, before)
			}
			if diff := cmp.Diff(foreign(dead.Headers), foreign(rec.Headers)); diff != "" {
				t.Fatalf("headers (-want +got):\n%s", diff)
			}
		}
	})
}

func foreign(headers []job.Header) (kept []string) {
	for _, h := range headers {
		if !describesFailure(h.Key) {
			kept = append(kept, h.Key+"="+string(h.Value))
		}
	}
	return kept
}

// A node that has the setting cost reads no header cost, so the letter of such a job has its id.
func TestAJobsIDIsFoundBesideAnyHeaderCost(t *testing.T) {
	t.Parallel()
	l := ReadLetter(job.Record{Topic: "jobs.dlq", Value: []byte(`{"id":"m-1"}`), Headers: []job.Header{{Key: "cost", Value: []byte("0.0075")}}})
	if id := l.FindJobID(); id != "m-1" {
		t.Errorf("got id %s, want m-1", id)
	}
}

func FuzzReadLetter(f *testing.F) {
	f.Add("x-error-class", []byte("exhausted"), []byte(`{"id":"a"}`))
	f.Add("X-Attempt", []byte("99999999999999999999"), []byte("v"))
	f.Add("x-failed-at", []byte("2026-01-02T03:04:05Z"), []byte{0xff})
	f.Add("x-redrive", []byte("2147483647"), []byte(nil))
	f.Add("x-original-offset", []byte("-1"), []byte{})
	f.Fuzz(func(t *testing.T, name string, header, value []byte) {
		rec := job.Record{Topic: "jobs.dlq", Offset: 5, Value: value, Headers: []job.Header{{Key: name, Value: header}, {Key: name, Value: header}}}
		l := ReadLetter(rec)
		if l.Attempts < 0 || l.Redrives < 0 || l.OriginalSize < 0 || len(l.Message) > MaxMessageBytes || l.FindJobID() == "" {
			t.Fatalf("got %+v, want bounded values and a job id", l)
		}
		m := JobOf(&l)
		if string(m.Value) != string(value) || ReadLetter(job.Record{Headers: []job.Header{{Key: headerRedrive, Value: m.Headers[len(m.Headers)-1].Value}}}).Redrives < 1 {
			t.Fatalf("got %+v, want the same value and at least one redrive", m)
		}
	})
}
