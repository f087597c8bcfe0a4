package worker

import (
	"time"

	"dispatcher/internal/tracing"
	"dispatcher/sender"
)

// sendTraced is send with the spans of the attempt. The call carries the id of its own span. An attempt whose call was not
// made leaves no spans, and its wait goes on.
func (v *visit) sendTraced() sender.Result {
	attempt := v.traced().Attempt()
	j := v.Delivery.Job
	j.Traceparent, j.Tracestate = attempt.Headers()
	began := time.Now()
	r := v.o.Sender.SendOn(v.Context(), &v.Conn, j, v.permit)
	if r.Kind != sender.NotSent {
		call := tracing.Call{Began: began, Ended: time.Now(), Number: v.calls + 1, Result: r.Kind.String(), OK: r.Kind == sender.Accepted}
		if !r.WroteAt.IsZero() {
			call.Began = r.WroteAt
		}
		attempt.Called(call)
	}
	return r
}

// traced is the trace of the job.
func (v *visit) traced() *tracing.Job {
	if v.trace == nil {
		v.trace = v.o.Tracer.Job(&v.Delivery.Job, v.Delivery.Lane())
	}
	return v.trace
}

// traceUncalled ends the trace of a job that becomes a dead letter without another call.
func (v *visit) traceUncalled(d decision) {
	if v.o.Tracer != nil && d.action == doDeadLetter && d.last.Kind == 0 {
		v.traced().Uncalled(string(d.class))
	}
}
