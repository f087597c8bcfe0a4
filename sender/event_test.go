package sender_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dispatcher/internal/boottime"
	"dispatcher/job"
	"dispatcher/sender"
)

// sent makes one call for a record and returns what the provider read.
func sent(t *testing.T, o sender.Options, rec job.Record) (http.Header, string) {
	t.Helper()
	j, err := job.Decode(rec, job.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	n := &network{serve: answering(ok)}
	o.Dial = n.dial
	s := newSender(t, o)
	defer s.Close()
	permits := 0
	if res := s.Send(t.Context(), j, always(&permits)); res.Kind != sender.Accepted {
		t.Fatal(res)
	}
	_, writes := n.seen()
	if len(writes) != 1 {
		t.Errorf("got %d writes, want 1", len(writes))
	}
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(bytes.Join(writes, nil))))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatal(err)
	}
	return req.Header, string(body)
}

// withHeaders is a record with headers given as name, value, name, value.
func withHeaders(value string, pairs ...string) job.Record {
	r := job.Record{Topic: "jobs", Offset: 7, Value: []byte(value)}
	for i := 0; i < len(pairs); i += 2 {
		r.Headers = append(r.Headers, job.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return r
}

const (
	event     = "application/cloudevents+json"
	anOrder   = `{"specversion":"1.0","id":"7","source":"/shop","type":"t","datacontenttype":"text/plain","subject":"50 %","data":"5 € \"\n"}`
	traceID   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	confluent = "\x00\x00\x00\x00\x0c"
)

func TestEventsAreSentInBothModes(t *testing.T) {
	t.Parallel()
	asBinary := []string{
		"ce_specversion", "1.0", "ce_id", "7", "ce_source", "/shop", "ce_type", "t", "ce_subject", "50 % \"é\"",
		"ce_traceparent", traceID, "ce_tracestate", "v=1", "content-type", "text/plain",
	}
	for name, c := range map[string]struct {
		options sender.Options
		rec     job.Record
		want    http.Header
		body    string
	}{
		"binary": {
			rec: withHeaders("hello", asBinary...),
			want: http.Header{
				"Ce-Specversion": {"1.0"}, "Ce-Id": {"7"}, "Ce-Source": {"/shop"}, "Ce-Type": {"t"},
				"Ce-Subject": {"50%20%25%20%22%C3%A9%22"}, "Ce-Traceparent": {traceID}, "Ce-Tracestate": {"v=1"},
				"Traceparent": {traceID}, "Tracestate": {"v=1"}, "Content-Type": {"text/plain"}, "Idempotency-Key": {"/shop|7"},
			},
			body: "hello",
		},
		"structured, as it is": {
			rec:  withHeaders(anOrder, "content-type", event),
			want: http.Header{"Content-Type": {event}, "Idempotency-Key": {"/shop|7"}},
			body: anOrder,
		},
		"structured, as binary": {
			options: sender.Options{Config: sender.Config{CloudEvents: sender.EventsBinary}},
			rec:     withHeaders(anOrder, "content-type", event),
			want: http.Header{
				"Ce-Specversion": {"1.0"}, "Ce-Id": {"7"}, "Ce-Source": {"/shop"}, "Ce-Type": {"t"}, "Ce-Subject": {"50%20%25"},
				"Content-Type": {"text/plain"}, "Idempotency-Key": {"/shop|7"},
			},
			body: "5 € \"\n",
		},
		"a configured header wins": {
			options: sender.Options{Config: sender.Config{Headers: map[string]string{"ce-id": "mine"}}},
			rec:     withHeaders("hello", "ce_specversion", "1.0", "ce_id", "7", "ce_source", "/shop", "ce_type", "t"),
			want: http.Header{
				"Ce-Specversion": {"1.0"}, "Ce-Id": {"mine"}, "Ce-Source": {"/shop"}, "Ce-Type": {"t"}, "Idempotency-Key": {"/shop|7"},
			},
			body: "hello",
		},
		"no event": {
			options: sender.Options{Config: sender.Config{CloudEvents: sender.EventsBinary}},
			rec:     withHeaders("hello", "ce_other", "1", "traceparent", traceID, "tracestate", "v=1"),
			want:    http.Header{"Traceparent": {traceID}, "Tracestate": {"v=1"}, "Idempotency-Key": {"jobs/0/7"}},
			body:    "hello",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				header, body := sent(t, c.options, c.rec)
				header.Del("User-Agent")
				header.Del("Content-Length")
				if diff := cmp.Diff(c.want, header); diff != "" || body != c.body {
					t.Errorf("got body %q, want %q; headers (-want +got):\n%s", body, c.body, diff)
				}
			})
		})
	}
}

// A value that is no text comes to the provider byte for byte, with its content type:
// protobuf, what a schema registry's serializer has framed, and anything else.
func TestForeignBytesPassUntouched(t *testing.T) {
	t.Parallel()
	var values []string
	rapid.Check(t, func(t *rapid.T) { // drawn first: a check does not run in a bubble
		head := rapid.SampledFrom([]string{"", confluent, "\n ", "\x0a\x20{", `{"id":"`, "\x00{\"id\""}).Draw(t, "head")
		values = append(values, head+string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "rest")))
	})
	values = append(values, string(binary.BigEndian.AppendUint32([]byte{0}, 12)), confluent+strings.Repeat("\xff\x00", 50_000))
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: echo}
		s := newSender(t, sender.Options{Config: sender.Config{MessageID: "header:X-Hex", CloudEvents: sender.EventsBinary}, Dial: n.dial})
		defer s.Close()
		for _, value := range values {
			j, err := job.Decode(withHeaders(value, "content-type", "application/x-protobuf"), job.Limits{})
			if err != nil {
				t.Fatalf("%q: %v", value, err)
			}
			res := s.Send(t.Context(), j, func(context.Context) (boottime.Deadline, error) { return boottime.Deadline{}, nil })
			if res.Kind != sender.Accepted || res.MessageID != digest("application/x-protobuf", []byte(value)) || j.ID != "jobs/0/7" {
				t.Fatalf("%q, called %q, did not come as it was: %+v", value, j.ID, res)
			}
		}
	})
}

// digest is short enough for a header whatever came.
func digest(mediaType string, body []byte) string {
	sum := sha256.Sum256(append([]byte(mediaType+"\n"), body...))
	return hex.EncodeToString(sum[:])
}

// echo answers each call with the digest of its body.
func echo(_ int, c net.Conn, br *bufio.Reader) {
	for {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		answer := "HTTP/1.1 202 Accepted\r\nX-Hex: " + digest(req.Header.Get("Content-Type"), body) + "\r\nContent-Length: 0\r\n\r\n"
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// The provider's name for the message is read from the answer, and only where
// the answer is whole; the call counts all the same.
func TestMessageIDOfAnAnswer(t *testing.T) {
	t.Parallel()
	answer := func(head, body string) string { return "HTTP/1.1 " + head + "\r\n\r\n" + body }
	for name, c := range map[string]struct {
		option, answer string
		kind           sender.Kind
		want           string
	}{
		"header":            {"header:X-Message-Id", answer("200 OK\r\nX-Message-ID: m-1\r\nContent-Length: 2", "ok"), sender.Accepted, "m-1"},
		"JSON":              {"json:messageId", answer("202 OK\r\nContent-Length: 19", `{"messageId":"m-1"}`), sender.Accepted, "m-1"},
		"JSON in chunks":    {"json:messageId", answer("202 OK\r\nTransfer-Encoding: chunked", "13\r\n"+`{"messageId":"m-1"}`+"\r\n0\r\n\r\n"), sender.Accepted, "m-1"},
		"of a refusal":      {"json:messageId", answer("400 No\r\nContent-Length: 19", `{"messageId":"m-1"}`), sender.Rejected, "m-1"},
		"answer too long":   {"json:messageId", answer("200 OK\r\nContent-Length: 70", `{"messageId":"m-1"}`+strings.Repeat(" ", 51)), sender.Accepted, ""},
		"answer cut":        {"json:messageId", answer("200 OK\r\nConnection: close\r\nContent-Length: 30", `{"messageId":"m-1"}`), sender.Accepted, ""},
		"no answer to read": {"json:messageId", answer("204 OK", ""), sender.Accepted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &network{serve: func(_ int, conn net.Conn, br *bufio.Reader) {
					if readCall(br) {
						_, _ = io.WriteString(conn, c.answer)
					}
				}}
				s := newSender(t, sender.Options{Config: sender.Config{MessageID: c.option, MaxResponseBytes: 50}, Dial: n.dial})
				defer s.Close()
				permits := 0
				if res := s.Send(t.Context(), aJob("a", "x"), always(&permits)); res.Kind != c.kind || res.MessageID != c.want {
					t.Errorf("got %v and message id %q, want %v and %q", res.Kind, res.MessageID, c.kind, c.want)
				}
			})
		})
	}
}
