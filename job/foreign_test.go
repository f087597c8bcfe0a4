package job_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"dispatcher/job"
)

// framed is a value as Confluent's serializers write it: a zero, the schema's
// number in four bytes, and the message.
func framed(schema uint32, message string) string {
	head := binary.BigEndian.AppendUint32([]byte{0}, schema)
	return string(head) + message
}

// field is a protobuf field of a length below 128.
func field(number byte, text string) string {
	return string([]byte{number<<3 | 2, byte(len(text))}) + text
}

// What a schema describes is not ours to read, not even where it looks like
// JSON, and it is passed on byte for byte.
func TestForeignValuesAreNotRead(t *testing.T) {
	t.Parallel()
	inner := `{"id":"template-7","text":"hello"}`[:31] + `}` // 32 bytes: its length is a space
	if len(inner) != ' ' {
		t.Fatal(len(inner))
	}
	for name, rec := range map[string]job.Record{
		"framed, schema like JSON":          record(framed('{'<<24|'"'<<16|'i'<<8|'d', `":"a"}`)),
		"framed JSON":                       record(framed(12, `{"id":"a"}`)),
		"framed, said to be JSON":           record(framed(12, `{"id":"a"}`), "content-type", "application/json"),
		"protobuf":                          record(field(1, "+49170") + field(2, `{"id":"a"}`)),
		"protobuf with JSON in it":          record(field(1, inner) + field(2, "x")),
		"protobuf, JSON alone in it":        record(field(1, inner), "content-type", "application/x-protobuf"),
		"declared, and like JSON":           record(`{"id":"a"}`, "content-type", "application/octet-stream"),
		"protobuf in a CloudEvent's format": record(`{"id":"a"}`, "content-type", "application/protobuf;x=json"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, err := job.Decode(rec, job.Limits{})
			if err != nil || j.ID != "jobs/3/42" {
				t.Errorf("got id %q and error %v, want the place", j.ID, err)
			}
			if body, _ := j.Payload(); !bytes.Equal(body, rec.Value) || !bytes.Equal(j.Value, rec.Value) {
				t.Errorf("got %q and %q, want %q", body, j.Value, rec.Value)
			}
		})
	}
}

// JSON is still JSON where it is indented, or called text.
func TestIndentedJSONIsRead(t *testing.T) {
	t.Parallel()
	for _, rec := range []job.Record{
		record("\n  {\"id\":\"a\"}\n"),
		record(`{"id":"a"}`, "content-type", "text/plain"),
		record("\n {\"id\":\"a\"", "content-type", "application/vnd.api+JSON"),
	} {
		if j := decode(t, rec); j.ID != "a" {
			t.Errorf("%q: got id %q, want a", rec.Value, j.ID)
		}
	}
}

// A framed value never says how its job is called, whatever it holds.
func TestFramedValuesHaveNoID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := framed(rapid.Uint32().Draw(t, "schema"), string(rapid.SliceOf(rapid.Byte()).Draw(t, "message")))
		j, err := job.Decode(record(value), job.Limits{})
		if err != nil || j.ID != "jobs/3/42" || string(j.Value) != value {
			t.Errorf("got id %q, value %q and error %v", j.ID, j.Value, err)
		}
	})
}
