package report

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/sender"
)

// logged is a report in a bubble, and what it logs.
type logged struct {
	*Provider
	log      bytes.Buffer
	registry *prometheus.Registry
}

func withReport(t *testing.T, test func(w *logged)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &logged{registry: prometheus.NewRegistry()}
		w.Provider = New("https://provider.test", slog.New(slog.NewTextHandler(&w.log, nil)), w.registry)
		ctx, stop := context.WithCancel(t.Context())
		go w.Run(ctx)
		test(w)
		stop()
		synctest.Wait()
	})
}

// lines are those logged so far, without their time.
func (w *logged) lines() []string {
	synctest.Wait()
	var all []string
	for line := range strings.Lines(w.log.String()) {
		_, line, _ = strings.Cut(line, "level=")
		all = append(all, strings.TrimSpace(line))
	}
	return all
}

// metrics are those of the report, in one line.
func (w *logged) metrics(t *testing.T) string {
	t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all = append(all, fmt.Sprintf("%s{%s} %v", f.GetName(), strings.Join(labels, ","), m.GetGauge().GetValue()))
		}
	}
	return strings.Join(all, ", ")
}

func unauthorized() sender.Result {
	return sender.Result{Kind: sender.Unavailable, Status: 401, Err: errors.New("the provider does not accept the credentials: 401 unauthorized")}
}

// A wrong token is logged with the first call, with its status, the address and what
// to do. Further calls every few seconds don't make a line each.
func TestAWrongTokenIsLogged(t *testing.T) {
	t.Parallel()
	withReport(t, func(w *logged) {
		for range 9 {
			w.Note(unauthorized())
			time.Sleep(5 * time.Second)
		}
		lines := w.lines()
		if len(lines) != 2 {
			t.Fatalf("got %d lines, want one at once and a sum after five seconds:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		for _, want := range []string{"WARN", "calls to the provider fail", "provider=https://provider.test", "status=401", "does not accept the credentials", "sender.http.headers", "calls=1 "} {
			if !strings.Contains(lines[0], want) {
				t.Errorf("the first line lacks %q:\n%s", want, lines[0])
			}
		}
	})
}

// Throttling is logged once, then with its rate, and when it is over.
func TestThrottlingIsLogged(t *testing.T) {
	t.Parallel()
	withReport(t, func(w *logged) {
		for range 29 * 186 {
			w.Note(sender.Result{Kind: sender.Throttled, Status: 429, RetryAfter: 3 * time.Second, Err: errors.New("the provider answered 429 too many requests")})
			time.Sleep(time.Second / 186)
		}
		lines := w.lines()
		if len(lines) != 2 || !strings.Contains(lines[0], "the provider throttles") || !strings.Contains(lines[0], "retry_after=3s") || !strings.Contains(lines[1], "per_second=186") {
			t.Errorf("got these lines of 29 s in which all calls are throttled, want one at once and one with the rate:\n%s", strings.Join(lines, "\n"))
		}
		for range 12 {
			w.Note(sender.Result{Kind: sender.Accepted, Status: 200})
			time.Sleep(time.Second)
		}
		if lines = w.lines(); !strings.Contains(lines[len(lines)-1], "succeed again") || !strings.Contains(lines[len(lines)-1], fmt.Sprint("failed=", 29*186)) {
			t.Errorf("got as the last line, want that calls succeed again: %s", lines[len(lines)-1])
		}
	})
}

// Each kind of failure has its own lines, and at a thousand calls a second, every
// second of which fails in one of many ways, the lines are bounded.
func TestTheLogIsBounded(t *testing.T) {
	t.Parallel()
	withReport(t, func(w *logged) {
		const minutes = 5
		for i := range minutes * 60 * 1000 {
			r := sender.Result{Kind: sender.Accepted, Status: 200}
			if i%2 == 1 {
				// Another local port is not another kind.
				err := &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: i % 65536}, Err: syscall.ECONNRESET}
				r = sender.Result{Kind: sender.Unknown, Err: fmt.Errorf("no answer: %w", err)}
			}
			switch i % 50 {
			case 5: // neither is the port or the time of the question
				r.Err = fmt.Errorf("dial: %w", &net.DNSError{Err: fmt.Sprintf("read udp 10.0.0.5:%d->10.0.0.2:53: i/o timeout", i%65536), Name: "sms.example.com", IsTimeout: true})
			case 7:
				r.Err = fmt.Errorf("dial: %w", x509.CertificateInvalidError{Cert: new(x509.Certificate), Reason: x509.Expired, Detail: fmt.Sprint("current time ", i)})
			}
			if i%10 == 3 {
				r = sender.Result{Kind: sender.Unavailable, Status: 500 + i/10%100, Err: errors.New("the provider answered 5xx")}
			}
			w.Note(r)
			time.Sleep(time.Millisecond)
		}
		lines := w.lines()
		t.Logf("%d lines in %d minutes of 1000 calls a second, every second of which fails", len(lines), minutes)
		if most := (mostFailures + 1) * (minutes + 1); len(lines) > most {
			t.Errorf("got %d lines, want at most %d: one a minute and kind, and one more for each", len(lines), most)
		}
		for _, cause := range []string{"connection reset", "read udp", "expired"} {
			if got := strings.Count(w.log.String(), cause); got < minutes || got > minutes+1 {
				t.Errorf("got %d lines of failures by %q, want one a minute", got, cause)
			}
		}
	})
}

// /readyz and the metrics show what the provider answers.
func TestAnswersAreShown(t *testing.T) {
	t.Parallel()
	withReport(t, func(w *logged) {
		if got := w.State(); got != "not called yet" {
			t.Errorf("got %q before the first call", got)
		}
		w.Note(unauthorized())
		if got := w.State(); !strings.HasPrefix(got, "1 calls failed since ") || !strings.HasSuffix(got, "last: 401 Unauthorized") {
			t.Errorf("got %q of a call that failed", got)
		}
		w.BreakerChanged(true, 5, time.Second)
		if got, want := w.State(), fmt.Sprintf("down since %s, last: 401 Unauthorized", time.Now().Format(time.RFC3339)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := w.metrics(t), "dispatcher_provider_last_result{result=unavailable,status=401} 1, dispatcher_provider_up{} 0"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		w.BreakerChanged(false, 5, time.Second)
		w.Note(sender.Result{Kind: sender.Accepted, Status: 202})
		time.Sleep(settledAfter + 2*flushEvery)
		if got := w.State(); got != "answers" {
			t.Errorf("got %q, want that it answers", got)
		}
		if log := strings.Join(w.lines(), "\n"); !strings.Contains(log, `provider is down; jobs wait, and it is probed" provider=https://provider.test failures_in_a_row=5 probe_every=1s last="401 Unauthorized"`) || !strings.Contains(log, "provider answers again") {
			t.Errorf("got this log of a breaker that opens and closes:\n%s", log)
		}
	})
}

// The log says what to do about known faults.
func TestRemedies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r    sender.Result
		want string
	}{
		{sender.Result{Status: 401}, "sender.http.headers"},
		{sender.Result{Status: 404}, "sender.http.results: {404: rejected}"},
		{sender.Result{Status: 405}, "sender.http.results: {405: rejected}"},
		{sender.Result{Err: fmt.Errorf("connect: %w", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"})}, "http://"},
		{sender.Result{Status: 503}, ""},
	} {
		if got := remedy(c.r); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%d, %v: got %q, want %q in it", c.r.Status, c.r.Err, got, c.want)
		}
	}
}
