package job_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"dispatcher/job"
)

// lawful checks a decoder's result against its contract; false: the record was refused.
func lawful(t *testing.T, j job.Job, err error) bool {
	t.Helper()
	var e *job.Error
	if err != nil {
		if !errors.As(err, &e) || e.Rule == "" || e.Field == "" || len(e.Error()) > 300 {
			t.Fatalf("got error %v, want a bounded one of a field", err)
		}
		return false
	}
	if j.ID == "" || len(j.ID) > job.MaxIDBytes || !utf8.ValidString(j.ID) || strings.ContainsAny(j.ID, "\x00\r\n\x7f") {
		t.Fatalf("got id %q", j.ID)
	}
	if j.Event == nil {
		return true
	}
	size, seen := 0, map[string]bool{}
	for _, a := range j.Event.Attributes {
		size += len(a.Name) + len(a.Value)
		if seen[a.Name] || strings.Trim(a.Name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || a.Name == "" || !utf8.Valid(a.Value) {
			t.Fatalf("got attribute %q = %q", a.Name, a.Value)
		}
		seen[a.Name] = true
	}
	if len(seen) > 64 || size > 16<<10 || !seen["id"] || !seen["source"] || !seen["type"] || !seen["specversion"] {
		t.Fatalf("got %d bytes of attributes %v", size, j.Event.Attributes)
	}
	return true
}

func FuzzStructuredEvent(f *testing.F) {
	for _, v := range []string{
		aStructured, `{`, `[]`, "\n" + aStructured + " ", aStructured[:len(aStructured)-1] + `,"data_base64":"AA=="}`,
		`{"specversion":"1.0","id":"\u0037","source":"a|b","type":"t","data_base64":"AAH\/","datacontenttype":"a/b","n":-1.5e3,"t":true,"z":null}`,
		`{"specversion":"1.0","id":"a","source":"b","type":"t","\u0064ata":"x\n","expirytime":"2026-03-01T13:00:00Z"}`,
	} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		rec := job.Record{Topic: "t", Value: value, Headers: []job.Header{{Key: "content-type", Value: []byte(structuredType)}}}
		j, err := job.Decode(rec, job.Limits{MaxBytes: 1 << 16})
		if !lawful(t, j, err) {
			return
		}
		var all map[string]any
		dec := json.NewDecoder(strings.NewReader(string(value)))
		dec.UseNumber()
		if err := dec.Decode(&all); err != nil {
			t.Fatalf("%q was taken, though %v", value, err)
		}
		compareAttributes(t, all, j.Event)
		body, _ := j.Payload()
		if text, ok := all["data_base64"].(string); ok && len(body) > len(text) {
			t.Fatalf("got a body of %d bytes from %q", len(body), text)
		}
	})
}

// compareAttributes checks the scan against a full decoder.
func compareAttributes(t *testing.T, all map[string]any, e *job.Event) {
	t.Helper()
	for name, v := range all {
		if slices.Contains([]string{"data", "data_base64", "datacontenttype"}, name) || v == nil {
			continue
		}
		want, ok := "", false
		switch v := v.(type) {
		case string:
			want, ok = v, true
		case json.Number:
			want, ok = v.String(), true
		case bool:
			want, ok = map[bool]string{true: "true", false: "false"}[v], true
		}
		if got := e.Attribute(name); !ok || string(got) != want {
			t.Fatalf("attribute %s: got %q, want %q", name, got, want)
		}
	}
}

func FuzzBinaryEvent(f *testing.F) {
	f.Add("ce_subject", []byte("s"), "CE_id", []byte("8"), []byte("x"))
	f.Add("ce_specversion", []byte("0.3"), "ce_", []byte{}, []byte{})
	f.Add("ce_expirytime", []byte("2026-03-01T13:00:00Z"), "ce_tracestate", []byte("a=1"), []byte(`{"id":1}`))
	f.Add("content-type", []byte("application/cloudevents"), "ce_source", []byte("a|b"), []byte(aStructured))
	f.Fuzz(func(t *testing.T, name string, value []byte, other string, content, body []byte) {
		rec := asBinary(string(body))
		rec.Headers = append(rec.Headers, job.Header{Key: name, Value: value}, job.Header{Key: other, Value: content})
		j, err := job.Decode(rec, job.Limits{MaxBytes: 1 << 16})
		if lawful(t, j, err) && string(j.Value) != string(body) {
			t.Fatalf("got value %q, want %q", j.Value, body)
		}
	})
}
