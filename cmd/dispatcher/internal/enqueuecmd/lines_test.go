package enqueuecmd

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dispatcher/job"
)

func all(t *testing.T, input, format, keyField string, maxValue int) ([]job.Record, error) {
	t.Helper()
	r, err := newReader(strings.NewReader(input), format, keyField, maxValue)
	if err != nil {
		return nil, err
	}
	var records []job.Record
	for {
		rec, err := r.next()
		if errors.Is(err, io.EOF) {
			if r.consumed != int64(len(input)) {
				t.Errorf("got %d bytes consumed, want %d", r.consumed, len(input))
			}
			return records, nil
		}
		if err != nil {
			return records, err
		}
		records = append(records, rec)
	}
}

func TestJobsOfLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000) // longer than the read buffer
	asJSON := job.Header{Key: "content-type", Value: []byte("application/json")}
	for _, row := range []struct {
		name, input, format, keyField string
		want                          []job.Record
	}{
		{"nothing", "", "lines", "", nil},
		{"plain", "a\n\n b \r\nc", "lines", "", []job.Record{{Value: []byte("a")}, {Value: []byte(" b ")}, {Value: []byte("c")}}},
		{"long", long + "\nb\n", "lines", "", []job.Record{{Value: []byte(long)}, {Value: []byte("b")}}},
		{"key field", `{"to":"a\n1"}` + "\n" + `{"to":12}` + "\n", "lines", "to", []job.Record{
			{Key: []byte("a\n1"), Value: []byte(`{"to":"a\n1"}`)}, {Key: []byte("12"), Value: []byte(`{"to":12}`)},
		}},
		{"bytes", "Gr\xfc\xdfe", "lines", "", []job.Record{{Value: []byte("Gr\xfc\xdfe")}}},
		{"pairs", `{"value":"\ud83d\ude00","key":"\\ud800"}`, "ndjson", "", []job.Record{{Key: []byte(`\ud800`), Value: []byte("😀")}}},
		{"half a pair that is sent as it is", `{"key":"1","value":{"a":"\ud800"}}`, "ndjson", "", []job.Record{
			{Key: []byte("1"), Value: []byte(`{"a":"\ud800"}`), Headers: []job.Header{asJSON}},
		}},
		{"half a pair beside the key field", `{"to":"1","text":"\ud800"}`, "lines", "to", []job.Record{
			{Key: []byte("1"), Value: []byte(`{"to":"1","text":"\ud800"}`)},
		}},
		{"text value", `{"value":"a\nb","key":""}`, "ndjson", "", []job.Record{{Key: []byte{}, Value: []byte("a\nb")}}},
		{"JSON value", `{"value": {"a": 1} }`, "ndjson", "", []job.Record{{Value: []byte(`{"a": 1}`), Headers: []job.Header{asJSON}}}},
		{"everything", `{"value":[1],"key":"k","headers":{"lane":"otp","content-type":"x/y"},"id":"i"}`, "ndjson", "", []job.Record{{
			Key: []byte("k"), Value: []byte("[1]"), Headers: []job.Header{
				{Key: "content-type", Value: []byte("x/y")},
				{Key: "lane", Value: []byte("otp")},
				{Key: "idempotency-key", Value: []byte("i")},
			},
		}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := all(t, row.input, row.format, row.keyField, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadLinesAreNamedAndNotShown(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, input, format, keyField, want string }{
		{"too long", "ok\n" + strings.Repeat("s3cret", 30), "lines", "", "line 2: has more than the 100 bytes"},
		{"value too long", `{"value":"` + strings.Repeat("s3cret", 30) + `"}`, "ndjson", "", "line 1: has more than the 100 bytes"},
		{"no JSON", "\n\ns3cret", "ndjson", "", "line 3: is no JSON object"},
		{"unknown field", `{"value":"a","hdrs":{"a":"s3cret"}}`, "ndjson", "", `line 1: unknown field "hdrs"; there are value, key, headers and id`},
		{"no value", `{"key":"s3cret"}`, "ndjson", "", `line 1: has no "value"`},
		{"null value", `{"value":null}`, "ndjson", "", `line 1: has no "value"`},
		{"two objects", `{"value":"a"}{"value":"s3cret"}`, "ndjson", "", "line 1: holds more than one"},
		{"header that is no text", `{"value":"a","headers":{"a":1}}`, "ndjson", "", `line 1: each value in "headers" must be text`},
		{"headers that are no object", `{"value":"a","headers":7}`, "ndjson", "", `line 1: "headers" must be an object whose values are texts`},
		{"key that is no text", `{"value":"a","key":7}`, "ndjson", "", `line 1: "key" must be text, and is a number`},
		{"no object", `[1]`, "ndjson", "", `line 1: is a JSON array, and must be an object`},
		{"header without a name", `{"value":"a","headers":{"":"s3cret"}}`, "ndjson", "", "line 1: has a header without a name"},
		{"id twice", `{"value":"a","id":"s3cret","headers":{"idempotency-key":"b"}}`, "ndjson", "", "line 1: has an \"id\""},
		{"empty id", `{"value":"a","id":""}`, "ndjson", "", "line 1: has an \"id\" that is empty"},
		{"id not UTF-8", "{\"value\":\"a\",\"id\":\"s3cret\xff\"}", "ndjson", "", "line 1: is not UTF-8; convert it first"},
		{"half a pair in the id", `{"value":{"a":"\ud800"},"id":"s3cret\ud800"}`, "ndjson", "", `line 1: "id" holds half of a surrogate pair`},
		{"half a pair in the key", `{"value":"a","key":"s3cret\udfff"}`, "ndjson", "", `line 1: "key" holds half of a surrogate pair`},
		{"half a pair in a header", `{"value":"a","headers":{"a":"s3cret\ud800\ud800"}}`, "ndjson", "", `line 1: "headers" holds half of a surrogate pair`},
		{"half a pair in a header's name", `{"value":"a","headers":{"\ud800":"s3cret"}}`, "ndjson", "", `line 1: "headers" holds half of a surrogate pair`},
		{"half a pair in the text", `{"value":"s3cret\ud800x"}`, "ndjson", "", `line 1: "value" holds half of a surrogate pair`},
		{"key field not UTF-8", "{\"to\":\"s3cret\xff\"}", "lines", "to", "line 1: is not UTF-8; convert it first"},
		{"half a pair in the key field", `{"to":"s3cret\ud800"}`, "lines", "to", `line 1: field "to" holds half of a surrogate pair`},
		{"key field of no object", "s3cret", "lines", "to", "line 1: is no JSON object"},
		{"no key field", `{"from":"s3cret"}`, "lines", "to", `line 1: has no field "to"`},
		{"key field of another type", `{"to":{"a":"s3cret"}}`, "lines", "to", `line 1: field "to" is neither`},
		{"null key field", `{"to":null}`, "lines", "to", `line 1: field "to" is neither`},
		{"unknown format", "", "csv", "", `--format: "csv": must be lines or ndjson`},
		{"key field in an envelope", "", "ndjson", "to", "--key-field is for --format lines"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := all(t, row.input, row.format, row.keyField, 100)
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v\nwant %s", err, row.want)
			}
		})
	}
}

func FuzzReader(f *testing.F) {
	f.Add("a\n\nb", false, "")
	f.Add(`{"to":"1"}`, false, "to")
	f.Add(`{"value":"a","key":"k","headers":{"a":"b"},"id":"i"}`, true, "")
	f.Add(`{"value":{"a":[1,2]}}`+"\r\n{", true, "")
	f.Fuzz(func(t *testing.T, input string, ndjson bool, keyField string) {
		format := "lines"
		if ndjson {
			format, keyField = "ndjson", ""
		}
		records, err := all(t, input, format, keyField, 64)
		if len(records) > strings.Count(input, "\n")+1 {
			t.Errorf("got %d jobs of fewer lines", len(records))
		}
		for _, rec := range records {
			if len(rec.Value) > 64 || (!ndjson && len(rec.Value) == 0) {
				t.Errorf("got a value of %d bytes", len(rec.Value))
			}
		}
		if err != nil && !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("got %v, want the line named", err)
		}
	})
}
