package sender_test

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"dispatcher/job"
	"dispatcher/sender"
)

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	host := map[string]string{"host": "other.test", "authorization": "Bearer x", "User-Agent": "me"}
	for name, c := range map[string]struct {
		options sender.Options
		job     job.Job
		want    http.Header
		host    string
		length  int64
	}{
		"plain": {
			job:  aJob("order-1", "hello"),
			want: http.Header{"Idempotency-Key": {"order-1"}, "Content-Type": {"text/plain"}, "User-Agent": {"dispatcher"}, "Content-Length": {"5"}},
			host: "provider.test", length: 5,
		},
		"no content type, no value": {
			job:  job.Job{ID: "jobs/0/17"},
			want: http.Header{"Idempotency-Key": {"jobs/0/17"}, "User-Agent": {"dispatcher"}, "Content-Length": {"0"}},
			host: "provider.test",
		},
		"configured headers": {
			options: sender.Options{Config: sender.Config{Headers: host, Method: http.MethodPut}},
			job:     aJob("a", "hello"),
			want:    http.Header{"Idempotency-Key": {"a"}, "Content-Type": {"text/plain"}, "User-Agent": {"me"}, "Authorization": {"Bearer x"}, "Content-Length": {"5"}},
			host:    "other.test", length: 5,
		},
		"an id that no header may hold": {
			job:  aJob("é\r\nX: 1 100%", "hello"),
			want: http.Header{"Idempotency-Key": {"%C3%A9%0D%0AX:%201%20100%25"}, "Content-Type": {"text/plain"}, "User-Agent": {"dispatcher"}, "Content-Length": {"5"}},
			host: "provider.test", length: 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &network{serve: answering(ok)}
				c.options.Dial = n.dial
				s := newSender(t, c.options)
				defer s.Close()
				permits := 0
				if res := s.Send(t.Context(), c.job, always(&permits)); res.Kind != sender.Accepted {
					t.Fatal(res)
				}
				_, writes := n.seen()
				req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(writes[0])))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, req.Header); diff != "" {
					t.Errorf("headers (-want +got):\n%s", diff)
				}
				if req.Host != c.host || req.ContentLength != c.length {
					t.Errorf("got host %q, length %d; want %q, %d", req.Host, req.ContentLength, c.host, c.length)
				}
			})
		})
	}
}

func TestContentTypeThatNoHeaderMayHold(t *testing.T) {
	t.Parallel()
	s := newSender(t, sender.Options{})
	permits := 0
	res := s.Send(t.Context(), job.Job{ID: "a", ContentType: "text/plain\r\nX: 1"}, always(&permits))
	if res.Kind != sender.Rejected || permits != 0 || !res.WroteAt.IsZero() {
		t.Errorf("got %+v and %d permits, want rejected without one", res, permits)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options sender.Options
		want    string
	}{
		"no url":          {sender.Options{}, `url: ""`},
		"no scheme":       {sender.Options{Config: sender.Config{URL: "provider/send"}}, `url: "provider/send": must be an http:// or https:// URL`},
		"other scheme":    {sender.Options{Config: sender.Config{URL: "ftp://provider"}}, `url: "ftp://provider": must be an http:// or https:// URL`},
		"no host":         {sender.Options{Config: sender.Config{URL: "http:///send"}}, `url: "http:///send": must be an http:// or https:// URL with a host`},
		"no host, a port": {sender.Options{Config: sender.Config{URL: "http://:80/"}}, "url: (hidden): has no host"},
		"not a url":       {sender.Options{Config: sender.Config{URL: "http://a:secret@b:port/"}}, "url: (hidden): must be"},
		"user":            {sender.Options{Config: sender.Config{URL: "http://me:secret@provider/"}}, "url: (hidden): holds a user"},
		"query":           {sender.Options{Config: sender.Config{URL: "http:///?key=secret"}}, "url: (hidden): must be an http:// or https:// URL with a host"},
		"no user":         {sender.Options{Config: sender.Config{URL: "me:secret@provider"}}, "url: (hidden): must be"},
		"fragment":        {sender.Options{Config: sender.Config{URL: "http://provider/#x"}}, `url: "http://provider/#x": holds a fragment`},
		"host name":       {sender.Options{Config: sender.Config{URL: "http://m\u00fcller.example/send"}}, "url: (hidden): has a host that is not ASCII; write it in Punycode (xn--...), as DNS has it"},
		"encoded name":    {sender.Options{Config: sender.Config{URL: "http://m%C3%BCller.example/send"}}, "url: (hidden): has a host that is not ASCII"},
		"header host":     {withHeader("Host", "xn--\u00e9.test"), "url: (hidden): no request can name this host; correct it, or the header host"},
		"method":          {sender.Options{Config: sender.Config{URL: "http://p/", Method: "post"}}, `method: "post"`},
		"timeout":         {sender.Options{Config: sender.Config{URL: "http://p/", Timeout: -1}}, "timeout: -1ns"},
		"dial timeout":    {sender.Options{Config: sender.Config{URL: "http://p/", DialTimeout: -1}}, "dial_timeout: -1ns"},
		"idle timeout":    {sender.Options{Config: sender.Config{URL: "http://p/", IdleTimeout: -1}}, "idle_timeout: -1ns"},
		"response size":   {sender.Options{Config: sender.Config{URL: "http://p/", MaxResponseBytes: -5}}, "max_response_bytes: -5"},
		"header name":     {withHeader("a b", "x"), "headers.a b: (hidden): is no name of a header"},
		"header value":    {withHeader("A", "secret\n"), "headers.A: (hidden): holds a line break"},
		"length":          {withHeader("content-length", "5"), "headers.content-length: (hidden): is set by the call itself"},
		"expect":          {withHeader("Expect", "100-continue"), "headers.Expect: (hidden): is set by the call itself"},
		"one key":         {withHeader("Idempotency-Key", "1"), "headers.Idempotency-Key: (hidden): is set by the call itself"},
		"twice": {
			sender.Options{Config: sender.Config{URL: "http://p/", Headers: map[string]string{"a": "1", "A": "2"}}},
			"headers.a: (hidden): is the same header as A",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := sender.New(c.options)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want one with %q", err, c.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want no secret in the error", err)
			}
		})
	}
}

func withHeader(name, value string) sender.Options {
	return sender.Options{Config: sender.Config{URL: "http://p/", Headers: map[string]string{name: value}}}
}
