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
		options sender.HTTPOptions
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
			options: sender.HTTPOptions{Headers: host, Method: http.MethodPut},
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
				c.options.DialContext = n.dial
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
	s := newSender(t, sender.HTTPOptions{})
	permits := 0
	res := s.Send(t.Context(), job.Job{ID: "a", ContentType: "text/plain\r\nX: 1"}, always(&permits))
	if res.Kind != sender.Rejected || permits != 0 || !res.WroteAt.IsZero() {
		t.Errorf("got %+v and %d permits, want rejected without one", res, permits)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options sender.HTTPOptions
		want    string
	}{
		"no url":        {sender.HTTPOptions{}, `url: ""`},
		"no scheme":     {sender.HTTPOptions{URL: "provider/send"}, `"provider/send" is neither http nor https`},
		"other scheme":  {sender.HTTPOptions{URL: "ftp://provider"}, `"ftp://provider" is neither`},
		"no host":       {sender.HTTPOptions{URL: "http:///send"}, `"http:///send" has no host`},
		"not a url":     {sender.HTTPOptions{URL: "http://a:secret@b:port/"}, "url: it can't be parsed"},
		"user":          {sender.HTTPOptions{URL: "http://me:secret@provider/"}, "user information"},
		"query":         {sender.HTTPOptions{URL: "http:///?key=secret"}, "has no host"},
		"no user":       {sender.HTTPOptions{URL: "me:secret@provider"}, "neither http nor https"},
		"fragment":      {sender.HTTPOptions{URL: "http://provider/#x"}, "fragment"},
		"host name":     {sender.HTTPOptions{URL: "http://xn--\u00e9.test/"}, "url:"},
		"method":        {sender.HTTPOptions{URL: "http://p/", Method: "post"}, `method: "post"`},
		"timeout":       {sender.HTTPOptions{URL: "http://p/", Timeout: -1}, "timeout: -1ns"},
		"dial timeout":  {sender.HTTPOptions{URL: "http://p/", DialTimeout: -1}, "dial_timeout: -1ns"},
		"idle timeout":  {sender.HTTPOptions{URL: "http://p/", IdleTimeout: -1}, "idle_timeout: -1ns"},
		"response size": {sender.HTTPOptions{URL: "http://p/", MaxResponseBytes: -5}, "max_response_bytes: -5"},
		"header name":   {withHeader("a b", "x"), `"a b" is not a header name`},
		"header value":  {withHeader("A", "secret\n"), `value of "A"`},
		"length":        {withHeader("content-length", "5"), `"content-length"`},
		"expect":        {withHeader("Expect", "100-continue"), `"Expect"`},
		"one key":       {withHeader("Idempotency-Key", "1"), `"Idempotency-Key"`},
		"twice": {
			sender.HTTPOptions{URL: "http://p/", Headers: map[string]string{"a": "1", "A": "2"}},
			`"A" and "a" are the same header`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := sender.NewHTTP(c.options)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got error %v, want one with %q", err, c.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

func withHeader(name, value string) sender.HTTPOptions {
	return sender.HTTPOptions{URL: "http://p/", Headers: map[string]string{name: value}}
}
