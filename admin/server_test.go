package admin_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/admin"
)

// serve runs a server until the test ends and returns its address. Its log may
// be read once the returned stop has been called, which also checks how Run ended.
func serve(t *testing.T, o admin.Options) (base string, stop func()) {
	t.Helper()
	s, err := admin.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: got %v, want nil after its context ended", err)
		}
	}
	t.Cleanup(stop)
	return "http://" + s.Addr(), stop
}

func call(t *testing.T, method, url string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, req)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	calls := prometheus.NewCounter(prometheus.CounterOpts{Name: "calls_total", Help: "Calls."})
	registry.MustRegister(calls)
	calls.Add(3)
	well := admin.Check{Name: "kafka", Check: func(context.Context) (string, error) { return "two of four partitions", nil }}
	ill := admin.Check{Name: "redis", Check: func(context.Context) (string, error) { return "", errors.New("connection refused") }}

	base, _ := serve(t, admin.Options{Config: admin.Config{Listen: "127.0.0.1:0"}, Checks: []admin.Check{well}, Gatherer: registry})
	sick, _ := serve(t, admin.Options{Config: admin.Config{Listen: "127.0.0.1:0"}, Checks: []admin.Check{well, ill}})
	for _, row := range []struct {
		method, url string
		status      int
		body        string
	}{
		{"GET", base + "/livez", 200, "ok\n"},
		{"HEAD", base + "/livez", 200, ""},
		{"POST", base + "/livez", 405, ""},
		{"GET", base + "/readyz", 200, `{"ready":true,"checks":[{"name":"kafka","ok":true,"note":"two of four partitions"}]}`},
		{"GET", base + "/metrics", 200, "calls_total 3\n"},
		{"GET", base + "/", 404, ""},
		{"GET", sick + "/livez", 200, "ok\n"},
		{"GET", sick + "/readyz", 503, `{"ready":false,"checks":[{"name":"kafka","ok":true,"note":"two of four partitions"},{"name":"redis","ok":false,"error":"connection refused"}]}`},
		{"GET", sick + "/metrics", 404, ""},
	} {
		status, body, _ := call(t, row.method, row.url)
		if status != row.status || !strings.Contains(body, row.body) {
			t.Errorf("%s %s: got %d %q, want %d with %q", row.method, row.url, status, body, row.status, row.body)
		}
	}
}

func TestACheckThatHangsIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		status, body := admin.AskReady(t.Context(), []admin.Check{
			{Name: "redis", Check: func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }},
			{Name: "kafka", Check: func(context.Context) (string, error) { return "two of four partitions", nil }},
		})
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("got an answer after %s, want 2s", took)
		}
		if status != 503 || !strings.Contains(body, "deadline exceeded") || !strings.Contains(body, `"kafka","ok":true`) {
			t.Errorf("got %d %s", status, body)
		}
	})
}

func TestLogSaysWhereItListens(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		listen   string
		insecure bool
		warned   string
	}{{"127.0.0.1:0", false, ""}, {"127.0.0.1:0", true, ""}, {"0.0.0.0:0", true, "admin.insecure"}, {"0.0.0.0:0", false, "admin.tls"}} {
		var log bytes.Buffer
		c := admin.Config{Listen: row.listen, Insecure: row.insecure}
		if row.warned == "admin.tls" {
			c.Auth = tokens(t)
		}
		base, stop := serve(t, admin.Options{Config: c, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		_, port, err := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
		if err != nil || port == "0" {
			t.Fatalf("got %s, want the port that was picked", base)
		}
		if status, _, _ := call(t, "GET", "http://127.0.0.1:"+port+"/livez"); status != 200 {
			t.Errorf("%s: got %d, want 200", row.listen, status)
		}
		stop()
		if text := log.String(); !strings.Contains(text, ":"+port) || strings.Contains(text, "WARN") != (row.warned != "") || !strings.Contains(text, row.warned) {
			t.Errorf("%s: got log %q, want the port, and a warning of %q", row.listen, text, row.warned)
		}
	}
}

func TestNoAddressServesNothing(t *testing.T) {
	t.Parallel()
	s, err := admin.New(admin.Options{})
	if err != nil || s.Addr() != "" {
		t.Fatalf("got %q, %v, want no address", s.Addr(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestATakenPortIsAnError(t *testing.T) {
	t.Parallel()
	base, _ := serve(t, admin.Options{Config: admin.Config{Listen: "127.0.0.1:0"}})
	if _, err := admin.New(admin.Options{Config: admin.Config{Listen: strings.TrimPrefix(base, "http://")}}); err == nil || !strings.Contains(err.Error(), "admin.listen") {
		t.Errorf("got %v, want an error that names admin.listen", err)
	}
}

// A client of net/http may see the connection close before the answer: it is
// still writing. So the bytes are written here.
func TestOversizedHeadersAreRefused(t *testing.T) {
	t.Parallel()
	base, _ := serve(t, admin.Options{Config: admin.Config{Listen: "127.0.0.1:0"}})
	for size, want := range map[int]int{8 << 10: http.StatusOK, 24 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := fmt.Fprintf(conn, "GET /livez HTTP/1.1\r\nHost: a\r\nX-Long: %s\r\n\r\n", strings.Repeat("x", size)); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%d bytes: got %d, want %d", size, resp.StatusCode, want)
		}
	}
}
