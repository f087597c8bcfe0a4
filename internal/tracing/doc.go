// Package tracing makes the spans of jobs, and sends them to an OpenTelemetry receiver by OTLP over HTTP.
//
// An attempt to call the provider has two spans: one for the wait before the call, and one for the call. They belong to the
// trace of the job's producer, which its header traceparent names; without one, the first wait begins a trace. The call's
// span is the parent of the provider's: [Attempt.Headers] are for the call. Whether a trace is recorded is the producer's
// decision, and without a producer that of the configured ratio.
//
// A span holds topic, partition, offset, lane, limit, result class and attempt. It never holds a payload, key, id or header.
//
// Spans are made when a call is over, with the times that were noted, so a job that waits holds no open span. Where tracing
// is off there is no [Tracer], and callers ask nothing of it.
//
// # Failure
//
// A receiver that is away harms no job. At most [queueSize] spans wait for it; further ones are dropped. The log says once of
// each outage that spans can't be sent, no more than once a minute, and when they are sent again. [Tracer.Close] sends what is left,
// for [flushTime] at most.
//
// # Goroutines
//
// The SDK's batch processor is one goroutine, from [New] to [Tracer.Close]. It sends the spans.
package tracing
