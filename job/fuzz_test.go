package job_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"dispatcher/job"
)

func FuzzDecode(f *testing.F) {
	for _, v := range []string{`{"id":"a"}`, `{"id":12}`, `{"a":[{"id":1}],"id":"b"}`, `{"\u0069d":"\ud83d\ude00"}`, `{"id`, `[`, ``, `{"a":"\`} {
		f.Add([]byte(v), "idempotency-key", []byte("k"))
		f.Add([]byte(v), "x", []byte{})
	}
	f.Add([]byte("x"), "Cost", []byte("2"))
	f.Add([]byte("x"), "not-before", []byte("2030-01-01T00:00:00Z"))
	f.Fuzz(func(t *testing.T, value []byte, header string, content []byte) {
		rec := job.Record{Topic: "t", Value: value, Headers: []job.Header{{Key: header, Value: content}}}
		j, err := job.Decode(rec, job.Limits{MaxBytes: 1 << 16})
		var e *job.Error
		if err != nil {
			if !errors.As(err, &e) || (e.Reason != job.ReasonDecode && e.Reason != job.ReasonUnsupported) {
				t.Fatalf("got error %v, want one of the two reasons", err)
			}
			return
		}
		if j.ID == "" || len(j.ID) > job.MaxIDBytes || !utf8.ValidString(j.ID) || strings.ContainsAny(j.ID, "\x00\r\n\x7f") {
			t.Fatalf("got id %q", j.ID)
		}
		if !strings.EqualFold(header, "idempotency-key") {
			compareID(t, value, j.ID)
		}
	})
}

// compareID checks the scan against a full decoder, where the value is JSON
// that means the same to both.
func compareID(t *testing.T, value []byte, got string) {
	t.Helper()
	var all map[string]json.RawMessage
	if json.Unmarshal(value, &all) != nil || strings.Count(string(value), "id")+strings.Count(string(value), `\u`) > 1 {
		return
	}
	var text string
	var number json.Number
	want := "t/0/0"
	if raw, ok := all["id"]; ok && json.Unmarshal(raw, &text) == nil && text != "" {
		want = text
	} else if ok && json.Unmarshal(raw, &number) == nil && raw[0] != '"' && raw[0] != 'n' {
		want = string(number)
	}
	if got != want {
		t.Fatalf("got id %q, want %q of %q", got, want, value)
	}
}
