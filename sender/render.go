package sender

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"

	"dispatcher/job"
)

const (
	idempotencyKey = "Idempotency-Key"
	contentType    = "Content-Type"
	userAgent      = "User-Agent"
	traceparent    = "Traceparent"
	tracestate     = "Tracestate"
)

// template is the part that all requests share. It is read-only once made: the
// requests point into it.
type template struct {
	method string
	url    *url.URL
	host   string // for the Host header; empty: the URL's
	header http.Header
	events EventMode
}

// newTemplate takes settings that were validated, all but the host's name.
func newTemplate(c Config) *template {
	u, _ := url.Parse(c.URL)
	t := &template{method: c.Method, url: u, header: http.Header{userAgent: {"dispatcher"}}, events: c.CloudEvents}
	for name, value := range c.Headers {
		if strings.EqualFold(name, "Host") {
			t.host = value
			continue
		}
		t.header[http.CanonicalHeaderKey(name)] = []string{value}
	}
	return t
}

// check writes a request to nowhere, which is how net/http checks the host.
func (t *template) check() error {
	sample := t.request(nil)
	sample.Header = t.header
	return sample.Write(io.Discard)
}

// address is where to dial: host and port, the scheme's port by default.
func (t *template) address() string {
	port := t.url.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[t.url.Scheme]
	}
	return net.JoinHostPort(t.url.Hostname(), port)
}

var errContentType = errors.New("render: the job's content type has bytes that no header may hold")

// headers makes the headers of a job's call with a body of this type. It checks their
// values, because net/http would refuse them only after the permit.
func (t *template) headers(j *job.Job, mediaType string) (http.Header, error) {
	header := make(http.Header, len(t.header)+3)
	values := make([]string, 2) // one allocation for both
	if mediaType != "" {
		if !isHeaderValue(mediaType) {
			return nil, errContentType
		}
		values[0] = mediaType
		header[contentType] = values[0:1:1]
	}
	if j.Traceparent != "" && isHeaderValue(j.Traceparent) { // a bad trace is no reason to reject a job
		header[traceparent] = []string{j.Traceparent}
		if j.Tracestate != "" && isHeaderValue(j.Tracestate) { // means nothing without the other
			header[tracestate] = []string{j.Tracestate}
		}
	}
	t.addEvent(header, j.Event)
	maps.Copy(header, t.header)
	if j.ID != "" {
		values[1] = headerSafe(j.ID)
		header[idempotencyKey] = values[1:2:2]
	}
	return header, nil
}

// request makes a request with this body and no headers yet.
func (t *template) request(body []byte) *http.Request {
	req := &http.Request{
		Method: t.method, URL: t.url, Host: t.host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: http.NoBody,
	}
	if len(body) > 0 {
		// net/http knows this reader as one in memory, so headers and body leave in one
		// write. Without GetBody it can't send the request again.
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.ContentLength = int64(len(body))
	}
	return req
}

// headerSafe percent-encodes the percent sign and all but visible ASCII, so two
// different ids never become the same key.
func headerSafe(id string) string {
	return percentEncoded(id, func(c byte) bool { return c > ' ' && c < 0x7f && c != '%' })
}

// percentEncoded encodes the bytes that are not plain.
func percentEncoded(text string, plain func(byte) bool) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	done := 0
	for i := range len(text) {
		if !plain(text[i]) {
			b.WriteString(text[done:i])
			b.Write([]byte{'%', hex[text[i]>>4], hex[text[i]&15]})
			done = i + 1
		}
	}
	if done == 0 {
		return text
	}
	b.WriteString(text[done:])
	return b.String()
}
