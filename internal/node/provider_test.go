package node

import (
	"bytes"
	"context"
	"crypto/tls"
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

// reported is a provider's report in a bubble, and what it logs.
type reported struct {
	*provider
	log      bytes.Buffer
	registry *prometheus.Registry
}

func report(t *testing.T, test func(w *reported)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &reported{registry: prometheus.NewRegistry()}
		w.provider = newProvider("https://provider.test", slog.New(slog.NewTextHandler(&w.log, nil)), w.registry)
		ctx, stop := context.WithCancel(t.Context())
		go w.run(ctx)
		test(w)
		stop()
		synctest.Wait()
	})
}

// lines are those logged so far, without their time.
func (w *reported) lines() []string {
	synctest.Wait()
	var all []string
	for line := range strings.Lines(w.log.String()) {
		_, line, _ = strings.Cut(line, "level=")
		all = append(all, strings.TrimSpace(line))
	}
	return all
}

// metrics are those of the report, in one line.
func (w *reported) metrics(t *testing.T) string {
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

// A wrong token is told with the first call, by its status, the address and what to
// do; one call a few seconds makes no line each.
func TestAWrongTokenIsTold(t *testing.T) {
	t.Parallel()
	report(t, func(w *reported) {
		for range 9 {
			w.note(unauthorized())
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

// A provider that throttles is told once, then with its rate, and when it is over.
func TestThrottlingIsTold(t *testing.T) {
	t.Parallel()
	report(t, func(w *reported) {
		for range 29 * 186 {
			w.note(sender.Result{Kind: sender.Throttled, Status: 429, RetryAfter: 3 * time.Second, Err: errors.New("the provider answered 429 too many requests")})
			time.Sleep(time.Second / 186)
		}
		lines := w.lines()
		if len(lines) != 2 || !strings.Contains(lines[0], "the provider throttles") || !strings.Contains(lines[0], "retry_after=3s") || !strings.Contains(lines[1], "per_second=186") {
			t.Errorf("got these lines of 29 s in which all calls are throttled, want one at once and one with the rate:\n%s", strings.Join(lines, "\n"))
		}
		for range 12 {
			w.note(sender.Result{Kind: sender.Accepted, Status: 200})
			time.Sleep(time.Second)
		}
		if lines = w.lines(); !strings.Contains(lines[len(lines)-1], "succeed again") || !strings.Contains(lines[len(lines)-1], fmt.Sprint("failed=", 29*186)) {
			t.Errorf("got as the last line, want that calls succeed again: %s", lines[len(lines)-1])
		}
	})
}

// Each kind of failure is told by itself, and at a thousand calls a second, every
// second of which fails in one of many ways, the lines are bounded.
func TestTheLogIsBounded(t *testing.T) {
	t.Parallel()
	report(t, func(w *reported) {
		const minutes = 5
		for i := range minutes * 60 * 1000 {
			r := sender.Result{Kind: sender.Accepted, Status: 200}
			if i%2 == 1 {
				// A port of this host's makes no kind of its own.
				err := &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: i % 65536}, Err: syscall.ECONNRESET}
				r = sender.Result{Kind: sender.Unknown, Err: fmt.Errorf("no answer: %w", err)}
			}
			if i%10 == 3 {
				r = sender.Result{Kind: sender.Unavailable, Status: 500 + i/10%100, Err: errors.New("the provider answered 5xx")}
			}
			w.note(r)
			time.Sleep(time.Millisecond)
		}
		lines := w.lines()
		t.Logf("%d lines in %d minutes of 1000 calls a second, every second of which fails", len(lines), minutes)
		if most := (mostFailures + 1) * (minutes + 1); len(lines) > most {
			t.Errorf("got %d lines, want at most %d: one a minute and kind, and one more for each", len(lines), most)
		}
		if got := strings.Count(w.log.String(), "connection reset"); got < minutes || got > minutes+1 {
			t.Errorf("got %d lines of connections that were reset, want one a minute", got)
		}
	})
}

// /readyz and the metrics say what the provider answers.
func TestWhatTheProviderAnswersIsShown(t *testing.T) {
	t.Parallel()
	report(t, func(w *reported) {
		if got := w.standing(); got != "not called yet" {
			t.Errorf("got %q before the first call", got)
		}
		w.note(unauthorized())
		if got := w.standing(); !strings.HasPrefix(got, "1 calls failed since ") || !strings.HasSuffix(got, "last: 401 Unauthorized") {
			t.Errorf("got %q of a call that failed", got)
		}
		w.broken(true, 5, time.Second)
		if got, want := w.standing(), fmt.Sprintf("down since %s, last: 401 Unauthorized", time.Now().Format(time.RFC3339)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := w.metrics(t), "dispatcher_provider_last_result{result=unavailable,status=401} 1, dispatcher_provider_up{} 0"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		w.broken(false, 5, time.Second)
		w.note(sender.Result{Kind: sender.Accepted, Status: 202})
		time.Sleep(wellAfter + 2*flushEvery)
		if got := w.standing(); got != "answers" {
			t.Errorf("got %q, want that it answers", got)
		}
		if log := strings.Join(w.lines(), "\n"); !strings.Contains(log, `provider is down; jobs wait, and it is probed" provider=https://provider.test failures_in_a_row=5 probe_every=1s last="401 Unauthorized"`) || !strings.Contains(log, "provider answers again") {
			t.Errorf("got this log of a breaker that opens and closes:\n%s", log)
		}
	})
}

// The log says what to do about the faults that we know.
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
