package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"dispatcher/job"
)

// Job is the trace of one job. It belongs to one goroutine at a time.
type Job struct {
	tracer *Tracer
	parent trace.SpanContext // of waits: the producer's span, or the job's first wait; invalid: that is still to come
	trace  trace.TraceID
	flags  trace.TraceFlags
	state  string    // the producer's tracestate
	since  time.Time // of the wait
	place  []attribute.KeyValue
}

// Job begins the trace of a job of a lane. Its wait began with its record's timestamp.
func (t *Tracer) Job(j *job.Job, lane string) *Job {
	now := time.Now()
	o := &Job{tracer: t, since: j.Time}
	if o.since.IsZero() || o.since.After(now) { // the producer's clock
		o.since = now
	}
	o.join(j)
	if o.sampled() {
		o.place = []attribute.KeyValue{
			attribute.String("messaging.system", "kafka"), attribute.String("messaging.destination.name", j.Topic),
			attribute.String("messaging.destination.partition.id", strconv.Itoa(j.Partition)), attribute.Int64("messaging.kafka.offset", j.Offset),
			attribute.String("dispatcher.lane", lane), t.limit,
		}
	}
	return o
}

// join takes the producer's trace, or begins one.
func (o *Job) join(j *job.Job) {
	if j.Traceparent != "" {
		carrier := propagation.MapCarrier{"traceparent": j.Traceparent, "tracestate": j.Tracestate}
		producer := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
		if producer.IsValid() {
			o.parent, o.trace, o.flags, o.state = producer, producer.TraceID(), producer.TraceFlags(), j.Tracestate
			return
		}
	}
	o.trace = newTraceID()
	decision := o.tracer.ratio.ShouldSample(sdk.SamplingParameters{ParentContext: context.Background(), TraceID: o.trace}).Decision
	o.flags = trace.TraceFlags(0).WithSampled(decision == sdk.RecordAndSample)
}

func (o *Job) sampled() bool { return o.flags.IsSampled() }

// Attempt is one attempt to call the provider.
type Attempt struct {
	job        *Job
	wait, call trace.SpanID
}

// Attempt begins an attempt. It has no spans until [Attempt.Called].
func (o *Job) Attempt() Attempt { return Attempt{o, newSpanID(), newSpanID()} }

// Headers are those of the call.
func (a Attempt) Headers() (traceparent, tracestate string) {
	return "00-" + a.job.trace.String() + "-" + a.call.String() + "-" + a.job.flags.String(), a.job.state
}

// Call is a call that was made.
type Call struct {
	Began, Ended time.Time
	Number       int    // of the job's calls, from 1
	Result       string // its class
	OK           bool   // the provider took the job
}

// Called ends the attempt with a call. The next wait begins.
func (a Attempt) Called(c Call) {
	o := a.job
	defer func() { o.since = c.Ended }()
	if !o.sampled() {
		return
	}
	attempt := attribute.Int("dispatcher.attempt", c.Number)
	wait := o.span(o.parent, a.wait, "wait", trace.SpanKindConsumer, o.since, attempt)
	wait.End(trace.WithTimestamp(c.Began))
	call := o.span(wait.SpanContext(), a.call, "call", trace.SpanKindClient, c.Began, attempt, attribute.String("dispatcher.result", c.Result))
	if !c.OK {
		call.SetStatus(codes.Error, c.Result)
	}
	call.End(trace.WithTimestamp(c.Ended))
	if !o.parent.IsValid() {
		o.parent = wait.SpanContext()
	}
}

// Uncalled ends the trace of a job that is settled without another call, and says as what.
func (o *Job) Uncalled(result string) {
	if !o.sampled() {
		return
	}
	wait := o.span(o.parent, newSpanID(), "wait", trace.SpanKindConsumer, o.since, attribute.String("dispatcher.result", result))
	wait.SetStatus(codes.Error, result)
	wait.End()
}

// span begins a span with this id.
func (o *Job) span(parent trace.SpanContext, id trace.SpanID, name string, kind trace.SpanKind, at time.Time, more ...attribute.KeyValue) trace.Span {
	o.tracer.exporter.spans.WithLabelValues("made").Inc()
	ctx := context.WithValue(trace.ContextWithSpanContext(context.Background(), parent), idsKey{}, ids{o.trace, id})
	_, span := o.tracer.spans.Start(ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(at), trace.WithAttributes(o.place...), trace.WithAttributes(more...))
	return span
}

// idsKey is where the context of a new span has its ids.
type idsKey struct{}

type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// givenIDs gives spans the ids of their context: a call has its id before it has its times.
type givenIDs struct{}

// NewIDs are those of a span that begins a trace.
func (givenIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	given, _ := ctx.Value(idsKey{}).(ids) // every span is made by Job.span
	return given.trace, given.span
}

// NewSpanID is that of another span.
func (g givenIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, id := g.NewIDs(ctx)
	return id
}

func newTraceID() (id trace.TraceID) {
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64()|1) // an id of zeros is none
	return id
}

func newSpanID() (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], rand.Uint64()|1<<63)
	return id
}
