package embedded_test

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"dispatcher/internal/embedded"
)

// receiver is an OTLP receiver. It keeps the spans that it gets.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*otlp.Span
	team  string // that a request named last
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if err := r.take(q); err != nil {
			t.Error(err)
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) take(q *http.Request) error {
	body := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(q.Body)
		if err != nil {
			return err
		}
		body = unzipped
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(text, &request); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if team := q.Header.Get("X-Team"); team != "" {
		r.team = team
	}
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	return nil
}

// named are the spans of a name that have this parent.
func (r *receiver) named(name string, parent []byte) (list []*otlp.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.GetName() == name && string(s.GetParentSpanId()) == string(parent) {
			list = append(list, s)
		}
	}
	return list
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.spans)
}

// one is the only such span.
func (r *receiver) one(t *testing.T, name string, parent []byte) *otlp.Span {
	t.Helper()
	var list []*otlp.Span
	await(t, func() bool { list = r.named(name, parent); return len(list) > 0 })
	if len(list) != 1 {
		t.Fatalf("got %d spans %s of parent %x, want one", len(list), name, parent)
	}
	return list[0]
}

func attributesOf(s *otlp.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.GetAttributes() {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			all[a.GetKey()] = strconv.FormatInt(v.IntValue, 10)
		}
	}
	return all
}

// tracedBy is a program beside the fleet with spans of its own.
func tracedBy(t *testing.T, r *receiver) *trace.TracerProvider {
	t.Helper()
	client, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(r.URL+"/v1/traces"))
	if err != nil {
		t.Fatal(err)
	}
	p := trace.NewTracerProvider(trace.WithSyncer(client))
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p
}

// One trace leads from the producer's span through the wait and the call to the provider's, read back from an OTLP
// receiver. The second call of a job has spans of its own. Nothing of the job itself is in them.
func TestATraceOfOneJob(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	others := tracedBy(t, r)
	var calls sync.Map
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		ctx := propagation.TraceContext{}.Extract(q.Context(), propagation.HeaderCarrier(q.Header))
		_, span := others.Tracer("provider").Start(ctx, "deliver")
		defer span.End()
		key := q.Header.Get("Idempotency-Key")
		if _, again := calls.LoadOrStore(key, true); !again && key == "order-1" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(provider.Close)

	p := begin(t, embedded.Options{})
	ctx, order := others.Tracer("producer").Start(t.Context(), "order")
	header := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, header)
	order.End()
	before := time.Now().Add(-time.Second)
	writeTo(t, p, "jobs", rec("call +4917012345 at once", "idempotency-key", "order-1", "traceparent", header["traceparent"]))
	fleetTo(t, p, provider.URL, "tracing.endpoint="+r.URL, "tracing.insecure=true", "tracing.headers.x-team=blue")

	producer := order.SpanContext()
	traceID, producerID := producer.TraceID(), producer.SpanID()
	await(t, func() bool { return len(r.named("wait", producerID[:])) == 2 })
	waits := r.named("wait", producerID[:])
	for i, wait := range waits {
		call := r.one(t, "call", wait.GetSpanId())
		deliver := r.one(t, "deliver", call.GetSpanId())
		for _, s := range []*otlp.Span{wait, call, deliver} {
			if hex.EncodeToString(s.GetTraceId()) != traceID.String() {
				t.Errorf("%s: got trace %x, want %s", s.GetName(), s.GetTraceId(), traceID)
			}
		}
		if wait.GetEndTimeUnixNano() != call.GetStartTimeUnixNano() || call.GetEndTimeUnixNano() <= call.GetStartTimeUnixNano() || wait.GetStartTimeUnixNano() < uint64(before.UnixNano()) || wait.GetEndTimeUnixNano() < wait.GetStartTimeUnixNano() {
			t.Errorf("attempt %d: the call does not follow its wait: %v, %v", i+1, wait, call)
		}
		got := attributesOf(call)
		want := map[string]string{
			"messaging.system": "kafka", "messaging.destination.name": "jobs", "messaging.destination.partition.id": got["messaging.destination.partition.id"], "messaging.kafka.offset": got["messaging.kafka.offset"],
			"dispatcher.lane": "default", "dispatcher.limit": "provider", "dispatcher.attempt": strconv.Itoa(i + 1), "dispatcher.result": []string{"unavailable", "accepted"}[i],
		}
		if len(got) != len(want) {
			t.Errorf("got %v, want %v", got, want)
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("attempt %d, %s: got %q, want %q", i+1, key, got[key], value)
			}
		}
		if failed := call.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR; failed != (i == 0) {
			t.Errorf("attempt %d: got status %v", i+1, call.GetStatus())
		}
		for _, s := range []*otlp.Span{wait, call} {
			for _, secret := range []string{"4917012345", "order-1"} {
				if strings.Contains(s.String(), secret) {
					t.Errorf("%s holds %s: %s", s.GetName(), secret, s)
				}
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.team != "blue" {
		t.Errorf("got team %q, want the header of the configuration", r.team)
	}
}

// fleetTo runs a node with this provider until all jobs are settled.
func fleetTo(t *testing.T, p *embedded.Parts, url string, settings ...string) {
	t.Helper()
	fleet(t, p, 1, append([]string{"sender.http.url=" + url}, settings...)...)
}

// A producer that does not record its trace decides for the rest of it. Without a producer the ratio does. Either way the
// provider learns the decision.
func TestSamplingFollowsTheProducer(t *testing.T) {
	t.Parallel()
	const unsampled, sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, row := range []struct {
		ratio, traceparent string
		spans              int
	}{
		{"1", unsampled, 0},
		{"0", sampled, 2},
		{"0", "", 0},
		{"1", "", 2},
		{"1", "no traceparent at all", 2},
	} {
		t.Run(row.ratio+" "+row.traceparent, func(t *testing.T) {
			t.Parallel()
			r, c := newReceiver(t), newRecorder(t)
			p := begin(t, embedded.Options{})
			job := rec("hello", "idempotency-key", "one", "tracestate", "vendor=1")
			if row.traceparent != "" {
				job = rec("hello", "idempotency-key", "one", "tracestate", "vendor=1", "traceparent", row.traceparent)
			}
			writeTo(t, p, "jobs", job)
			fleetTo(t, p, c.URL, "tracing.endpoint="+r.URL, "tracing.insecure=true", "tracing.sample_ratio="+row.ratio)
			if got := r.count(); got != row.spans { // the node has ended, and sent what was left
				t.Errorf("got %d spans, want %d", got, row.spans)
			}
			header := c.call("one").header
			got := header.Get("Traceparent")
			parts := strings.Split(got, "-")
			if len(parts) != 4 || (parts[3] == "01") != (row.spans > 0) {
				t.Fatalf("got traceparent %q, want the decision in it", got)
			}
			if strings.HasPrefix(row.traceparent, "00-") && (parts[1] != strings.Split(row.traceparent, "-")[1] || parts[2] == "b7ad6b7169203331" || header.Get("Tracestate") != "vendor=1") {
				t.Errorf("got %q and %q, want the producer's trace with another span", got, header.Get("Tracestate"))
			}
			if row.spans == 2 && !strings.HasPrefix(row.traceparent, "00-") {
				r.one(t, "call", r.one(t, "wait", nil).GetSpanId())
			}
		})
	}
}

// A receiver that is away holds up no job and no stop.
func TestAReceiverThatIsAwayHarmsNoJob(t *testing.T) {
	t.Parallel()
	c := newRecorder(t)
	p := begin(t, embedded.Options{})
	enqueue(t, p, 300)
	fleetTo(t, p, c.URL, "tracing.endpoint=https://127.0.0.1:1", "tracing.sample_ratio=1")
	for i := range 300 {
		if c.call("job-"+strconv.Itoa(i)).body == "" {
			t.Fatalf("job-%d was not called", i)
		}
	}
}

// Without an endpoint the producer's headers are passed on as they came.
func TestWithoutTracingTheProducersHeadersArePassedOn(t *testing.T) {
	t.Parallel()
	c := newRecorder(t)
	p := begin(t, embedded.Options{})
	const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	writeTo(t, p, "jobs", rec("hello", "idempotency-key", "one", "traceparent", traceparent, "tracestate", "vendor=1"))
	fleetTo(t, p, c.URL)
	if h := c.call("one").header; h.Get("Traceparent") != traceparent || h.Get("Tracestate") != "vendor=1" {
		t.Errorf("got %v, want the producer's", h)
	}
}
