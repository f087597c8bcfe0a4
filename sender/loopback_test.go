package sender_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/internal/boottime"
	"dispatcher/internal/provider"
	"dispatcher/sender"
)

func startProvider(t *testing.T, o provider.Options) *provider.Provider {
	t.Helper()
	o.Guard = -1
	p := provider.New(o)
	if err := p.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p
}

// wantKind is the table of all statuses, written down once more.
func wantKind(status int) sender.Kind {
	switch status {
	case 429:
		return sender.Throttled
	case 401, 402, 403, 404, 405, 407, 408, 421, 425, 426:
		return sender.Unavailable
	case 501, 505:
		return sender.Rejected
	}
	return map[int]sender.Kind{
		1: sender.Unknown, 2: sender.Accepted, 3: sender.Unavailable, 4: sender.Rejected, 5: sender.Unavailable,
	}[status/100]
}

func TestEveryStatus(t *testing.T) {
	t.Parallel()
	p := startProvider(t, provider.Options{Answer: func(_ int, key string) provider.Answer {
		status, _ := strconv.Atoi(key)
		return provider.Answer{Status: status}
	}})
	s := newSender(t, sender.Options{Config: sender.Config{URL: "http://" + p.Addr() + "/"}})
	permits := 0
	for status := 100; status <= 599; status++ {
		if status < 200 {
			continue // a client goes on waiting after those
		}
		res := s.Send(t.Context(), aJob(strconv.Itoa(status), "x"), always(&permits))
		if res.Kind != wantKind(status) || res.Status != status || (res.Err == nil) != (res.Kind == sender.Accepted) {
			t.Errorf("%d: got %+v, want %v", status, res, wantKind(status))
		}
	}
	if p.Count() != 400 || permits != 400 {
		t.Errorf("got %d arrivals, %d permits; want 400", p.Count(), permits)
	}
}

func TestRetryAfterIsReported(t *testing.T) {
	t.Parallel()
	p := startProvider(t, provider.Options{Answer: func(_ int, key string) provider.Answer {
		status, _ := strconv.Atoi(key)
		return provider.Answer{Status: status, RetryAfter: 7 * time.Second}
	}})
	s := newSender(t, sender.Options{Config: sender.Config{URL: "http://" + p.Addr() + "/"}})
	permits := 0
	for status, want := range map[int]sender.Kind{
		429: sender.Throttled, 503: sender.Unavailable, 500: sender.Unavailable, 403: sender.Throttled,
	} {
		res := s.Send(t.Context(), aJob(strconv.Itoa(status), "x"), always(&permits))
		if res.Kind != want || res.RetryAfter != 7*time.Second {
			t.Errorf("%d: got %v, %v; want %v, 7s", status, res.Kind, res.RetryAfter, want)
		}
	}
	if res := s.Send(t.Context(), aJob("410", "x"), always(&permits)); res.RetryAfter != 0 {
		t.Errorf("410: got %v, want 0: it is not to be tried again", res.RetryAfter)
	}
}

func TestProviderDownAndUp(t *testing.T) {
	t.Parallel()
	p := startProvider(t, provider.Options{})
	s := newSender(t, sender.Options{Config: sender.Config{URL: "http://" + p.Addr() + "/"}})
	permits := 0
	s.Send(t.Context(), aJob("a", "x"), always(&permits))
	p.Down()
	// The connection may be found dead before the permit or under it; either
	// way nothing arrives.
	if res := s.Send(t.Context(), aJob("b", "x"), always(&permits)); res.Kind == sender.Accepted {
		t.Errorf("got %+v from a provider that is down", res)
	}
	before := permits
	if res := s.Send(t.Context(), aJob("c", "x"), always(&permits)); res.Kind != sender.Unavailable || permits != before {
		t.Errorf("got %+v with %d permits, want unavailable with none", res, permits-before)
	}
	if err := p.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := s.Send(t.Context(), aJob("d", "x"), always(&permits)); res.Kind != sender.Accepted {
		t.Errorf("got %+v, want accepted", res)
	}
	if p.Count() != 2 {
		t.Errorf("got %d arrivals, want 2", p.Count())
	}
}

func TestTLSWithItsOwnAuthority(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		if r.ProtoMajor != 1 || string(body) != strings.Repeat("x", 8000) {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	srv.EnableHTTP2 = true // it is offered, and not taken
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())

	n := &tally{}
	s := newSender(t, sender.Options{Config: sender.Config{URL: srv.URL}, TLSConfig: func() *tls.Config { return &tls.Config{RootCAs: roots} }, Dial: n.dial})
	permits := 0
	for range 3 {
		before := n.count()
		res := s.Send(t.Context(), aJob("a", strings.Repeat("x", 8000)), func(context.Context) (boottime.Deadline, error) {
			permits++
			before = n.count()
			return boottime.By(time.Now().Add(time.Minute)), nil
		})
		if res.Kind != sender.Accepted || n.count()-before != 1 {
			t.Errorf("got %+v with %d writes, want accepted with 1", res, n.count()-before)
		}
	}
	if calls.Load() != 3 || permits != 3 {
		t.Errorf("got %d calls, %d permits; want 3", calls.Load(), permits)
	}

	stranger := newSender(t, sender.Options{Config: sender.Config{URL: srv.URL}})
	if res := stranger.Send(t.Context(), aJob("a", "x"), always(&permits)); res.Kind != sender.Unavailable || permits != 3 {
		t.Errorf("got %+v, want unavailable and no permit: the authority is unknown", res)
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	p := startProvider(t, provider.Options{Behaviour: provider.Behaviour{Jitter: 2 * time.Millisecond}})
	reg := prometheus.NewRegistry()
	s := newSender(t, sender.Options{Config: sender.Config{URL: "http://" + p.Addr() + "/"}, Registerer: reg})
	permit := func(context.Context) (boottime.Deadline, error) { return boottime.Deadline{}, nil }
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for n := range 20 {
				if res := s.Send(t.Context(), aJob(strconv.Itoa(w*20+n), "x"), permit); res.Kind != sender.Accepted {
					t.Errorf("got %+v", res)
				}
			}
		})
	}
	wg.Wait()
	v := provider.Judge(p.Arrivals(), nil, provider.Contract{})
	if v.Sent != 320 || v.Distinct != 320 || v.Doubled != 0 {
		t.Errorf("got %+v, want 320 different calls", v)
	}
	m := gather(t, reg)
	if m["dispatcher_sender_calls_total accepted"] != 320 || m["dispatcher_sender_call_duration_seconds"] != 320 {
		t.Errorf("got metrics %v, want 320 calls", m)
	}
	if busy, idle := m["dispatcher_sender_connections busy"], m["dispatcher_sender_connections idle"]; busy != 0 || idle > 16 || idle == 0 {
		t.Errorf("got %v busy and %v idle connections, want 1 to 16, all idle", busy, idle)
	}
	if m["dispatcher_sender_dials_total ok"] != m["dispatcher_sender_connections idle"] {
		t.Errorf("got %v: connections were lost on the way", m)
	}
}

func TestMetricsAreThereFromTheBeginning(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	newSender(t, sender.Options{Config: sender.Config{URL: "http://127.0.0.1:1/"}, Registerer: reg})
	m := gather(t, reg)
	for _, k := range sender.Kinds() {
		if _, found := m["dispatcher_sender_calls_total "+k.String()]; !found {
			t.Errorf("no series for %v in %v", k, m)
		}
	}
	if _, err := sender.New(sender.Options{Config: sender.Config{URL: "http://127.0.0.1:1/"}, Registerer: reg}); err == nil {
		t.Error("two senders share a registry's series without an error")
	}
}

// gather gives each series by its name and its one label's value.
func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// A status has the result that is configured for it.
func TestConfiguredStatus(t *testing.T) {
	t.Parallel()
	p := startProvider(t, provider.Options{Answer: func(_ int, key string) provider.Answer {
		status, _ := strconv.Atoi(key)
		return provider.Answer{Status: status}
	}})
	s := newSender(t, sender.Options{Config: sender.Config{URL: "http://" + p.Addr() + "/", Results: map[string]string{"404": "rejected", "500-599": "unknown", "501": "accepted"}}})
	permits := 0
	for status, want := range map[int]sender.Kind{404: sender.Rejected, 403: sender.Unavailable, 500: sender.Unknown, 501: sender.Accepted, 505: sender.Unknown} {
		if res := s.Send(t.Context(), aJob(strconv.Itoa(status), "x"), always(&permits)); res.Kind != want || res.WroteAt.IsZero() {
			t.Errorf("%d: got %+v, want %v", status, res, want)
		}
	}
	if _, err := sender.New(sender.Options{Config: sender.Config{URL: "http://" + p.Addr() + "/", Results: map[string]string{"404": "no"}}}); err == nil {
		t.Error("an unknown result is no error")
	}
}
