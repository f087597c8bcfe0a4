package worker

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/internal/boottime"
	"dispatcher/internal/dedup"
	"dispatcher/internal/node/pacer"
	"dispatcher/internal/tracing"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// visit is the stay of one job with a worker, from its slot until it is settled or
// waits again. It belongs to its worker's goroutine.
type visit struct {
	*Handler
	pacer.Item
	memo

	placeFree bool // the place is free again
}

// memo is what stays with a job while it sleeps.
type memo struct {
	history

	entry   *dedup.Entry // nil: there is no dedup store
	entryID string

	trace *tracing.Job // nil: none yet, or tracing is off
}

// attempts is what the consumer keeps of the history.
func (h history) attempts() consumer.Attempts {
	return consumer.Attempts{Calls: h.calls, Failures: h.Failures}
}

// outcome is the job's result record after its last call.
func (h history) outcome(last sender.Result) consumer.Outcome {
	o := consumer.Outcome{Status: last.Status, MessageID: last.MessageID, Attempts: h.calls, SentAt: h.sentAt}
	if last.Err != nil {
		o.Error = last.Err.Error()
	}
	return o
}

// failure is what a dead letter says of the last call.
func (h history) failure(d decision) deadletter.Failure {
	f := deadletter.Failure{Class: d.class, Calls: h.calls, Answer: d.last.Answer}
	if d.last.Status != 0 {
		f.Code = strconv.Itoa(d.last.Status)
	}
	if d.last.Err != nil {
		f.Message = d.last.Err.Error()
	}
	return f
}

func (v *visit) end() {
	v.freePlace()
	v.Conn.Release()
	if v.Sample {
		v.o.Breaker.EndSample()
	}
	if !v.Slot.IsZero() {
		v.o.Limiter.Unused(v.Slot)
	}
}

// freePlace gives the place of the work item back to the pacer, once.
func (v *visit) freePlace() {
	if !v.placeFree {
		v.placeFree = true
		v.o.Places.Free()
	}
}

// objections says what there is against a call.
func (v *visit) objections() event {
	return event{refused: v.Refused, timedOut: v.Delivery.TimedOut(), expired: v.Delivery.Job.Expired(time.Now())}
}

// call makes one call, if the breaker allows it.
func (v *visit) call() event {
	done, err := v.o.Breaker.Allow()
	if err != nil {
		return event{breakerOpen: true}
	}
	r := v.send()
	v.freePlace()
	v.o.Provider.Note(r)
	v.Delivery.Step("called", slog.String("result", r.Kind.String()), slog.Int("status", r.Status), slog.Time("wrote_at", r.WroteAt), slog.Any("error", r.Err))
	attribution := v.o.Breaker.Attribute(&v.Record, r, time.Now(), v.Delivery.CountFailure)
	done(r, attribution)
	if !r.WroteAt.IsZero() {
		v.calls++
		v.sentAt = r.WroteAt
		v.o.Limiter.Used(v.Slot, r.WroteAt)
		if r.Kind == sender.Throttled {
			v.throttled(r)
		}
		if r.Units != nil {
			v.o.Limiter.Reconcile(v.Slot, v.Wants, *r.Units)
		}
		v.Slot = throttle.Slot{}
		v.metrics.sent(v.Item, v.calls, r.WroteAt)
		v.metrics.called(v.Wants.Cost, r.Units)
	}
	if refused, ok := errors.AsType[*dedup.RefusedError](r.Err); ok {
		e := v.objections()
		e.refusal = refused.Answer
		return e
	}
	return event{
		hasResult: true, result: r, attribution: attribution, expired: errors.Is(r.Err, errExpired), givenUp: errors.Is(r.Err, throttle.ErrGivenUp),
		sleepersFull: r.Kind != sender.Accepted && v.o.SleepersFull(), jitter: rand.Float64(),
	}
}

// send hands the job to the sender. Without tracing nothing is done beside.
func (v *visit) send() sender.Result {
	if v.o.Tracer == nil {
		return v.o.Sender.SendOn(v.Context(), &v.Conn, v.Delivery.Job, v.permit)
	}
	return v.sendTraced()
}

// throttled tells the limiter that the provider refused the call for its rate: on the value of a gate that
// the job passed, where the answer says so.
func (v *visit) throttled(r sender.Result) {
	if gate, named := v.o.ThrottledAs[r.Limit]; named {
		for _, p := range v.Wants.Passes {
			if p.Gate == gate {
				v.o.Limiter.Block(v.Slot, v.Wants, p.Value, r.RetryAfter)
				return
			}
		}
	}
	v.o.Limiter.Refused(v.Slot, v.Wants.Cost, r.RetryAfter)
}

var (
	errExpired  = errors.New("the job's not-after has passed")
	errTimedOut = errors.New("the job has been in flight for longer than job_timeout")
)

// permit waits for the time of the job's slot, when all else is ready for the call. A job
// whose slot is over by then gets another one ahead of all others, and keeps all that it has
// prepared; one whose slot was given up goes back. The sender may ask again if it wrote
// nothing: the slot is good until its time is over.
func (v *visit) permit(ctx context.Context) (useBy boottime.Deadline, err error) {
	for {
		if v.Slot.IsZero() {
			v.freePlace() // to wait for a slot takes no place: those behind would hold theirs for nothing
			if v.Slot, err = v.o.Limiter.Again(v.Delivery.Context(), v.Wants); err != nil {
				return useBy, err
			}
			v.Delivery.SetSlot(v.Slot.NotBefore)
		}
		useBy, err = v.awaitSlot(ctx)
		if err == nil {
			v.freePlace()
			v.o.Limiter.Begins(v.Slot, v.Wants.Cost)
			return useBy, nil
		}
		if errors.Is(err, throttle.ErrLate) || errors.Is(err, throttle.ErrGivenUp) {
			v.o.Limiter.Missed(v.Slot)
			v.Slot = throttle.Slot{}
		}
		if !errors.Is(err, throttle.ErrLate) {
			return useBy, err
		}
	}
}

// awaitSlot claims the job, waits for the time of its slot, and checks whether the
// job may still be called then. It returns by when the call must be written.
func (v *visit) awaitSlot(ctx context.Context) (useBy boottime.Deadline, err error) {
	if useBy, err = v.claim(ctx); err != nil {
		return useBy, err
	}
	switch err := v.Slot.Wait(ctx); {
	case err != nil:
		return useBy, err
	case v.Delivery.Job.Expired(time.Now()):
		return useBy, errExpired
	case v.Delivery.TimedOut():
		return useBy, errTimedOut
	}
	return useBy, nil
}
