package tracing_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/internal/gathered"
	"dispatcher/internal/tracing"
	"dispatcher/job"
)

// text is a log that may be read while it is written.
type text struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// scene is a tracer of all jobs.
type scene struct {
	*tracing.Tracer
	log      *text
	registry *prometheus.Registry
}

func newScene(t testing.TB, url string, flush time.Duration) *scene {
	t.Helper()
	s := &scene{log: &text{}, registry: prometheus.NewRegistry()}
	var err error
	s.Tracer, err = tracing.New(tracing.Options{
		Config: tracing.Config{Endpoint: url, SampleRatio: 1, Insecure: true}, Node: "n", Limit: "provider",
		Logger: slog.New(slog.NewTextHandler(s.log, nil)), Registerer: s.registry, Flush: flush,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// patient is long enough for a machine that does much else.
const patient = time.Minute

// call makes both spans of a call.
func (s *scene) call(j *job.Job) {
	now := time.Now()
	s.Job(j, "default").Attempt().Called(tracing.Call{Began: now, Ended: now.Add(time.Millisecond), Number: 1, Result: "accepted", OK: true})
}

// spans counts them by what became of them.
func (s *scene) spans(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return gathered.Families(families).Counters("dispatcher_tracing_spans_total", "result")
}

var one = &job.Job{Record: job.Record{Topic: "jobs", Partition: 3, Offset: 17}}

func TestNoEndpointNoTracer(t *testing.T) {
	t.Parallel()
	if tr, err := tracing.New(tracing.Options{Config: tracing.Config{SampleRatio: 1}}); tr != nil || err != nil {
		t.Errorf("got %v and %v, want none", tr, err)
	}
}

// The end sends what is left.
func TestCloseSendsWhatIsLeft(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	r := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(r.Close)
	s := newScene(t, r.URL, patient)
	for range 1000 {
		s.call(one)
	}
	s.Close()
	if got := s.spans(t); got["made"] != 2000 || got["sent"] != 2000 || got["failed"] != 0 || requests.Load() == 0 {
		t.Errorf("got %v in %d requests, want 2000 spans sent", got, requests.Load())
	}
	if s.log.String() != "" {
		t.Errorf("got log %q, want none", s.log)
	}
}

// Scheme, host and path are those of the configuration, whatever the environment says: headers hold credentials, which
// must not go to an https:// endpoint in clear text.
func TestTheEnvironmentDoesNotChangeTheEndpoint(t *testing.T) {
	for _, row := range []struct {
		name, value, scheme, path string
		want                      string // the path that is asked for without encryption; empty: none
	}{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/other", "https://", "", ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:4318/other", "https://", "", ""},
		{"OTEL_EXPORTER_OTLP_INSECURE", "true", "https://", "", ""},
		{"OTEL_EXPORTER_OTLP_TRACES_INSECURE", "true", "https://", "", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:4318/other", "http://", "", "/v1/traces"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://collector:4318/other", "http://", "/own", "/own"},
		{"OTEL_EXPORTER_OTLP_INSECURE", "false", "http://", "/", "/"},
	} {
		t.Run(row.name+"="+row.value, func(t *testing.T) {
			t.Setenv(row.name, row.value)
			asked := make(chan string, 10)
			r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { asked <- q.URL.Path }))
			t.Cleanup(r.Close)
			s := newScene(t, row.scheme+r.Listener.Addr().String()+row.path, patient)
			s.call(one)
			s.Close()
			close(asked)
			if got := <-asked; got != row.want || s.spans(t)["sent"]+s.spans(t)["failed"] != 2 {
				t.Errorf("got the path %q asked without encryption and %v, want %q", got, s.spans(t), row.want)
			}
		})
	}
}

// A receiver that refuses spans is logged once, without the headers.
func TestAFailureIsLoggedOnce(t *testing.T) {
	t.Parallel()
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(r.Close)
	s := newScene(t, r.URL, patient)
	for range 1500 { // several batches
		s.call(one)
	}
	s.Close()
	if got := s.spans(t); got["failed"] < 1024 {
		t.Errorf("got %v, want several batches that failed", got)
	}
	if got := s.log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "spans can't be sent") || !strings.Contains(got, "401") {
		t.Errorf("got log %q, want one line", got)
	}
}

// A receiver that hangs holds up neither jobs nor the end: what waits for it is bounded, and the rest is dropped.
func TestAReceiverThatHangs(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	r := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		select {
		case <-end:
		case <-q.Context().Done():
		}
	}))
	t.Cleanup(r.Close)
	t.Cleanup(func() { close(end) })
	s := newScene(t, r.URL, 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20_000 {
			s.call(one)
		}
		s.Close()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second): // it takes little more than two seconds
		t.Fatal("the receiver holds jobs or the end up")
	}
	if got := s.spans(t); got["made"] != 40_000 || got["sent"] != 0 {
		t.Errorf("got %v", got)
	}
}

func TestFaultsOfTheSettings(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		config tracing.Config
		want   string
	}{
		{tracing.Config{}, ""},
		{tracing.Config{Endpoint: "https://collector:4318", SampleRatio: 0.5, Headers: map[string]string{"authorization": "Bearer x"}}, ""},
		{tracing.Config{Endpoint: "http://collector:4318", Insecure: true}, ""},
		{tracing.Config{Endpoint: "http://collector:4318"}, "is not encrypted"},
		{tracing.Config{Endpoint: "collector:4318"}, "must be an http:// or https:// URL"},
		{tracing.Config{Endpoint: "https://me:secret@collector"}, "holds a user"},
		{tracing.Config{Endpoint: "https://collector/?token=secret"}, "holds a query"},
		{tracing.Config{SampleRatio: -0.1}, "must be from 0 to 1"},
		{tracing.Config{Headers: map[string]string{"a": "secret\n"}}, "headers.a: "},
	} {
		err := row.config.Validate()
		switch {
		case row.want == "" && err != nil:
			t.Errorf("%+v: got %v, want none", row.config, err)
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%+v: got %v, want %q and no secret", row.config, err, row.want)
		}
	}
}

// What a job costs beside its call: both spans, or the decision to make none.
func BenchmarkJob(b *testing.B) {
	r := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	b.Cleanup(r.Close)
	for name, flags := range map[string]string{"recorded": "01", "not recorded": "00"} {
		j := *one
		j.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-" + flags
		b.Run(name, func(b *testing.B) {
			s := newScene(b, r.URL, 0)
			defer s.Close()
			b.ReportAllocs()
			for b.Loop() {
				a := s.Job(&j, "default").Attempt()
				_, _ = a.Headers()
				now := time.Now()
				a.Called(tracing.Call{Began: now, Ended: now, Number: 1, Result: "accepted", OK: true})
			}
		})
	}
}
