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

// template is what all requests share. It is read-only once made: the requests
// point into it.
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

// headers gives the headers of one job's call, whose body is of this type. Its
// values are checked here, as net/http would refuse them only after the permit.
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
	if j.Traceparent != "" && isHeaderValue(j.Traceparent) { // a trace is no reason to refuse a job
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
		// A reader in memory, known as such to net/http, so that headers and body
		// leave in one write; no GetBody, so that it can't be sent again.
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.ContentLength = int64(len(body))
	}
	return req
}

// headerSafe percent-encodes what is not visible ASCII, and the percent sign
// with it: two different ids never become the same key.
func headerSafe(id string) string {
	return percentEncoded(id, func(c byte) bool { return c > ' ' && c < 0x7f && c != '%' })
}

// percentEncoded encodes the bytes that are not plain.
func percentEncoded(text string, plain func(byte) bool) string {
	first := 0
	for first < len(text) && plain(text[first]) {
		first++
	}
	if first == len(text) {
		return text
	}
	var b strings.Builder
	b.WriteString(text[:first])
	for i := first; i < len(text); i++ {
		if plain(text[i]) {
			b.WriteByte(text[i])
			continue
		}
		const hex = "0123456789ABCDEF"
		b.Write([]byte{'%', hex[text[i]>>4], hex[text[i]&15]})
	}
	return b.String()
}
