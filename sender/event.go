package sender

import (
	"net/http"

	"dispatcher/job"
)

// EventMode is how a job that is a structured CloudEvent is sent. An event in binary
// mode is always sent in binary mode: its data, with ce- headers.
type EventMode string

// The modes.
const (
	// EventsAsIs sends the bytes of the Kafka record, the whole event as JSON under
	// its content type. This is the structured mode of the HTTP binding as well.
	EventsAsIs EventMode = "as_is"
	// EventsBinary takes the event apart: its data is the body, under the data's
	// own content type, and its attributes are ce- headers.
	EventsBinary EventMode = "binary"
)

// payload is a job's body and its content type.
func (t *template) payload(j *job.Job) (body []byte, contentType string) {
	if t.events == EventsBinary {
		return j.Payload()
	}
	return j.Value, j.ContentType
}

// addEvent adds the attributes of an event that is sent in binary mode
// (CloudEvents, HTTP binding, 3.1.3).
func (t *template) addEvent(header http.Header, e *job.Event) {
	if e == nil || (e.Structured && t.events != EventsBinary) {
		return
	}
	for _, a := range e.Attributes {
		header[http.CanonicalHeaderKey("ce-"+a.Name)] = []string{percentEncoded(string(a.Value), isEventText)}
	}
}

// isEventText tells the bytes of an attribute that need no encoding. The binding
// encodes space, quote, percent, and all but visible ASCII.
func isEventText(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }
