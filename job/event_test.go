package job_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dispatcher/job"
)

const (
	structuredType = "application/cloudevents+json; charset=UTF-8"
	aStructured    = `{"specversion":"1.0","id":"7","source":"/shop","type":"order.placed","data":{"id":"inner"}}`
)

// asBinary is a record in binary mode; more headers may replace the required ones.
func asBinary(value string, headers ...string) job.Record {
	return record(value, append([]string{"ce_specversion", "1.0", "ce_id", "7", "ce_source", "/shop", "ce_type", "order.placed"}, headers...)...)
}

func asStructured(value string, headers ...string) job.Record {
	return record(value, append([]string{"content-type", structuredType}, headers...)...)
}

func decode(t *testing.T, rec job.Record) job.Job {
	t.Helper()
	j, err := job.Decode(rec, job.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestEventsAreNamedBySourceAndID(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", job.MaxIDBytes)
	for name, c := range map[string]struct {
		rec  job.Record
		want string
	}{
		"binary":                   {asBinary(`{"id":"json"}`), "/shop|7"},
		"structured":               {asStructured(aStructured), "/shop|7"},
		"type in capitals":         {record(aStructured, "Content-Type", "APPLICATION/CloudEvents+JSON"), "/shop|7"},
		"type without a format":    {record(aStructured, "content-type", "application/cloudevents"), "/shop|7"},
		"headers in capitals":      {asBinary("", "CE_ID", "8"), "/shop|8"},
		"a header of ours wins":    {asBinary("", "idempotency-key", "mine"), "mine"},
		"also in structured mode":  {asStructured(aStructured, "idempotency-key", "mine"), "mine"},
		"structured mode wins":     {asStructured(aStructured, "ce_id", "9", "ce_source", "x"), "/shop|7"},
		"escaped":                  {asStructured(strings.Replace(aStructured, `"7"`, `"\u0037\/é"`, 1)), "/shop|7/é"},
		"longest":                  {asBinary("", "ce_id", long[:job.MaxIDBytes-6]), "/shop|" + long[6:]},
		"too long":                 {asBinary("", "ce_id", long), "ce-sha256:d8b71e77f58e0bda77871f96edfd4b65cb205c1bfbad8d06e57f4fc98b1f9c0c"},
		"replayed":                 {asBinary("", "x-original-topic", "old", "x-original-partition", "1", "x-original-offset", "7"), "/shop|7"},
		"foreign ce_ headers":      {record("x", "ce_other", "1"), "jobs/3/42"},
		"no event, though like it": {record("x", "ce", "1", "cex_id", "2", "ceid", "3"), "jobs/3/42"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decode(t, c.rec).ID
			if name == "too long" {
				if !strings.HasPrefix(got, "ce-sha256:") || len(got) != len(c.want) {
					t.Errorf("got id %q, want a hash", got)
				}
				return
			}
			if got != c.want {
				t.Errorf("got id %q, want %q", got, c.want)
			}
		})
	}
}

func TestEventsThatAreRefused(t *testing.T) {
	t.Parallel()
	without := func(member string) job.Record {
		var all map[string]json.RawMessage
		if err := json.Unmarshal([]byte(aStructured), &all); err != nil {
			t.Fatal(err)
		}
		delete(all, member)
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return asStructured(string(text))
	}
	with := func(member string) job.Record {
		return asStructured(aStructured[:len(aStructured)-1] + "," + member + "}")
	}
	many, manyHeaders := "", []string{}
	for i := range 65 {
		many += `,"a` + strconv.Itoa(i) + `":1`
		manyHeaders = append(manyHeaders, "ce_a"+strconv.Itoa(i), "1")
	}
	large := strings.Repeat("x", 10<<10)
	for name, c := range map[string]struct {
		rec         job.Record
		field, says string
	}{
		"binary without specversion":     {record("", "ce_id", "7", "ce_source", "/s", "ce_type", "t"), "ce_specversion", "missing"},
		"binary without id":              {record("", "ce_specversion", "1.0", "ce_source", "/s", "ce_type", "t"), "ce_id", "missing"},
		"binary without source":          {record("", "ce_specversion", "1.0", "ce_id", "7", "ce_type", "t"), "ce_source", "missing"},
		"binary without type":            {record("", "ce_specversion", "1.0", "ce_id", "7", "ce_source", "/s"), "ce_type", "missing"},
		"binary with an empty id":        {asBinary("", "ce_id", ""), "ce_id", "empty"},
		"structured without specversion": {without("specversion"), "specversion", "missing"},
		"structured without id":          {without("id"), "id", "missing"},
		"structured without source":      {without("source"), "source", "missing"},
		"structured without type":        {without("type"), "type", "missing"},
		"structured id of null":          {asStructured(strings.Replace(aStructured, `"7"`, "null", 1)), "id", "missing"},
		"old version":                    {asBinary("", "ce_specversion", "0.3"), "ce_specversion", "is 0.3; only 1.0"},
		"old version, structured":        {asStructured(strings.Replace(aStructured, "1.0", "0.3", 1)), "specversion", "is 0.3; only 1.0"},
		"version that is none":           {asBinary("", "ce_specversion", "secret"), "ce_specversion", "only 1.0"},
		"batch":                          {record("[]", "content-type", "application/cloudevents-batch+json"), "content-type", "batch"},
		"avro":                           {record("x", "content-type", "application/cloudevents+avro"), "content-type", "avro"},
		"protobuf":                       {record("x", "content-type", "application/cloudevents+protobuf; x=1"), "content-type", "protobuf"},
		"xml":                            {record("x", "content-type", "application/cloudevents+XML"), "content-type", "xml"},
		"other format":                   {record("x", "content-type", "application/cloudevents+secret"), "content-type", "JSON"},
		"other type":                     {record("x", "content-type", "application/cloudeventssecret"), "content-type", "JSON"},
		"no JSON":                        {asStructured("secret"), "value", "JSON"},
		"cut":                            {asStructured(aStructured[:60]), "value", "JSON"},
		"something behind it":            {asStructured(aStructured + "x"), "value", "JSON"},
		"array":                          {asStructured("[" + aStructured + "]"), "value", "JSON"},
		"data twice":                     {with(`"data_base64":"AA=="`), "data_base64", "twice"},
		"attribute twice":                {with(`"id":"8"`), "id", "twice"},
		"content type twice":             {with(`"datacontenttype":"a/b","datacontenttype":"a/b"`), "datacontenttype", "twice"},
		"base64 that is none":            {asStructured(strings.Replace(aStructured, `"data":{"id":"inner"}`, `"data_base64":"secret!"`, 1)), "data_base64", "base64"},
		"base64 that is a number":        {asStructured(strings.Replace(aStructured, `"data":{"id":"inner"}`, `"data_base64":12`, 1)), "data_base64", "text"},
		"attribute that is an object":    {with(`"ext":{"a":1}`), "ext", "neither"},
		"attribute that is a list":       {with(`"ext":[1]`), "ext", "neither"},
		"name with a capital":            {with(`"extSecret":1`), "value", "lower-case"},
		"name that is empty":             {with(`"":1`), "value", "lower-case"},
		"name of a header":               {asBinary("", "ce_a-b", "1"), "ce_*", "letters and digits"},
		"control character":              {asBinary("", "ce_subject", "a\nb"), "ce_subject", "control"},
		"escaped control character":      {with(`"subject":"a\nb"`), "subject", "control"},
		"not UTF-8":                      {asBinary("", "ce_subject", "a\xff"), "ce_subject", "UTF-8"},
		"escaped and not UTF-8":          {with("\"subject\":\"\\u0061\xff\""), "subject", "UTF-8"},
		"too many headers":               {asBinary("", manyHeaders...), "ce_*", "more than 64"},
		"too many members":               {with(many[1:]), "*", "more than 64"},
		"too large":                      {asBinary("", "ce_one", large, "ce_two", large), "ce_*", "larger than 16384"},
		"one too large":                  {with(`"ext":"` + large + large + `"`), "ext", "longer than 16384"},
		"escaped, and far too large":     {with(`"ext":"` + strings.Repeat(`\n`, 100_000) + `"`), "ext", "longer than 16384"},
		"expirytime":                     {asBinary("", "ce_expirytime", "soon"), "ce_expirytime", "RFC 3339"},
		"expirytime, structured":         {with(`"expirytime":"soon"`), "expirytime", "RFC 3339"},
		"long traceparent":               {with(`"traceparent":"` + strings.Repeat("0", 1025) + `"`), "traceparent", "longer than 1024"},
		"tombstone":                      {job.Record{Headers: asBinary("").Headers}, "value", "without a value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := job.Decode(c.rec, job.Limits{})
			var e *job.Error
			if !errors.As(err, &e) || e.Reason != job.ReasonDecode || e.Field != c.field || !strings.Contains(e.Rule, c.says) {
				t.Fatalf("got %v, want a fault of %s that says %q", err, c.field, c.says)
			}
			if strings.Contains(strings.ToLower(err.Error()), "secret") {
				t.Errorf("the error quotes the record: %v", err)
			}
		})
	}
}

// Extensions speak where no header of ours does.
func TestExtensionsFillWhatHeadersLeaveOpen(t *testing.T) {
	t.Parallel()
	extensions := []string{
		"ce_expirytime", "2026-03-01T13:00:00Z", "ce_traceparent", "00-a-b-01", "ce_tracestate", "v=1",
		"ce_partitionkey", "p",
	}
	j := decode(t, asBinary("x", extensions...))
	if !j.NotAfter.Equal(now().Add(time.Hour)) || j.Traceparent != "00-a-b-01" || j.Tracestate != "v=1" || j.Key != nil {
		t.Errorf("got %v, %q, %q and key %q", j.NotAfter, j.Traceparent, j.Tracestate, j.Key)
	}
	j = decode(t, asBinary("x", append(extensions,
		"not-after", "2026-03-01T14:00:00Z", "traceparent", "00-c-d-01", "tracestate", "w=2", "ce_expirytime", "ignored")...))
	if !j.NotAfter.Equal(now().Add(2*time.Hour)) || j.Traceparent != "00-c-d-01" || j.Tracestate != "w=2" {
		t.Errorf("got %v, %q, %q, want what the headers say", j.NotAfter, j.Traceparent, j.Tracestate)
	}
}

func TestAttributesOfBothModes(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"specversion": "1.0", "id": "7", "source": "/shop", "type": "order.placed",
		"text": `say "é"`, "number": "-12", "truth": "true",
	}
	for name, rec := range map[string]job.Record{
		"binary": asBinary("", "content-type", "a/b", "ce_datacontenttype", "ignored", "CE_Text", `say "é"`, "ce_number", "1", "ce_number", "-12", "ce_truth", "true"),
		"structured": asStructured(aStructured[:len(aStructured)-1] +
			`, "datacontenttype":"a/b" , "text" : "say \"\u00e9\"","\u006eumber":-12 ,"truth":true,"none":null}`),
	} {
		j := decode(t, rec)
		got := map[string]string{}
		for _, a := range j.Event.Attributes {
			got[a.Name] = string(a.Value)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
		if j.Event.Structured != (name == "structured") || string(j.Value) != string(rec.Value) {
			t.Errorf("%s: got %+v", name, j)
		}
	}
}

func TestPayload(t *testing.T) {
	t.Parallel()
	head := `{"specversion":"1.0","id":"7","source":"/shop","type":"t"`
	for name, c := range map[string]struct {
		rec             job.Record
		body, mediaType string
	}{
		"no event":                     {record("x", "content-type", "a/b"), "x", "a/b"},
		"binary":                       {asBinary("x", "content-type", "a/b"), "x", "a/b"},
		"no data":                      {asStructured(head + `}`), "", ""},
		"no data but a type":           {asStructured(head + `,"datacontenttype":"a/b"}`), "", "a/b"},
		"JSON by default":              {asStructured(head + `,"data": {"a" : 1} }`), `{"a" : 1}`, "application/json"},
		"a number":                     {asStructured(head + `,"data":1.50}`), "1.50", "application/json"},
		"JSON text":                    {asStructured(head + `,"data":"a\u0062","datacontenttype":"x/y+JSON; q=1"}`), `"a\u0062"`, "x/y+JSON; q=1"},
		"text":                         {asStructured(head + `,"data":"a\u0062","datacontenttype":"text/plain"}`), "ab", "text/plain"},
		"text, type first":             {asStructured(`{"datacontenttype":"text/plain","data":"<a/>",` + head[1:] + "}"), "<a/>", "text/plain"},
		"an object, though it is text": {asStructured(head + `,"data":{},"datacontenttype":"text/plain"}`), "{}", "text/plain"},
		"base64":                       {asStructured(head + `,"data_base64":"AAH\/fw==","datacontenttype":"a/b"}`), "\x00\x01\xff\x7f", "a/b"},
		"base64 of nothing":            {asStructured(head + `,"data_base64":""}`), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := decode(t, c.rec)
			body, mediaType := j.Payload()
			if string(body) != c.body || mediaType != c.mediaType {
				t.Errorf("got %q of type %q, want %q of type %q", body, mediaType, c.body, c.mediaType)
			}
		})
	}
}

// The same event has the same name in both modes, and two events never share
// one.
func TestNamesOfEventsAreTheirOwn(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.StringMatching(`[a|/]{1,4}`), rapid.StringMatching(`[a-z|]{120,140}`), rapid.StringMatching(`[ -~é]{1,20}`))
	rapid.Check(t, func(t *rapid.T) {
		name := func(source, id string) string {
			var ids []string
			envelope, err := json.Marshal(map[string]any{"specversion": "1.0", "type": "t", "source": source, "id": id, "data_base64": base64.StdEncoding.EncodeToString([]byte(id))})
			if err != nil {
				t.Fatal(err)
			}
			for _, rec := range []job.Record{asBinary("x", "ce_source", source, "ce_id", id), asStructured(string(envelope))} {
				j, err := job.Decode(rec, job.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, j.ID)
			}
			if ids[0] != ids[1] || len(ids[0]) > job.MaxIDBytes {
				t.Fatalf("got %q in binary mode and %q in structured mode", ids[0], ids[1])
			}
			return ids[0]
		}
		source, id := text.Draw(t, "source"), text.Draw(t, "id")
		otherSource, otherID := text.Draw(t, "other source"), text.Draw(t, "other id")
		if same := source == otherSource && id == otherID; (name(source, id) == name(otherSource, otherID)) != same {
			t.Errorf("%q %q and %q %q are both called %q", source, id, otherSource, otherID, name(source, id))
		}
	})
}

func BenchmarkDecodeEvent(b *testing.B) {
	for name, rec := range map[string]job.Record{
		"binary":     asBinary(`{"to":"x"}`, "content-type", "application/json", "ce_time", "2026-03-01T12:00:00Z"),
		"structured": asStructured(aStructured),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := job.Decode(rec, job.Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
