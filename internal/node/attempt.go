package node

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/internal/dedup"
	"dispatcher/job"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// caller makes one call: a sender.
type caller interface {
	SendOn(ctx context.Context, on *sender.Conn, j job.Job, permit sender.Permit) sender.Result
}

// attempt is the stay of one job with a worker, from its slot until it is settled or
// waits again. It belongs to its worker's goroutine.
type attempt struct {
	*workerPool
	workItem
	memo

	used      throttle.Slot // the last slot that was given to the sender
	placeFree bool          // the place is free again
}

// memo is what stays with a job while it sleeps.
type memo struct {
	history

	entry   *dedup.Entry // nil: there is no dedup store
	entryID string
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
	f := deadletter.Failure{Class: d.class, Attempt: h.calls, Answer: d.last.Answer}
	if d.last.Status != 0 {
		f.Code = strconv.Itoa(d.last.Status)
	}
	if d.last.Err != nil {
		f.Message = d.last.Err.Error()
	}
	return f
}

func (a *attempt) end() {
	a.freePlace()
	a.conn.Release()
	if a.sample {
		a.breaker.EndSample()
	}
}

// freePlace gives the place of the work item back to the pacer, once.
func (a *attempt) freePlace() {
	if !a.placeFree {
		a.placeFree = true
		<-a.places
	}
}

// beforeCall says what there is against a call.
func (a *attempt) beforeCall() event {
	return event{full: a.full, timedOut: a.d.TimedOut(), expired: expired(a.d.Job.NotAfter, time.Now())}
}

// call makes one call, if the breaker allows it.
func (a *attempt) call() event {
	done, err := a.breaker.Allow()
	if err != nil {
		return event{breakerOpen: true}
	}
	a.used = throttle.Slot{}
	r := a.sender.SendOn(a.d.Context(), &a.conn, a.d.Job, a.permit)
	a.freePlace()
	a.provider.Note(r)
	a.d.Step("called", slog.String("result", r.Kind.String()), slog.Int("status", r.Status), slog.Time("wrote_at", r.WroteAt), slog.Any("error", r.Err))
	attribution := a.breaker.Attribute(&a.Job, r, time.Now(), a.d.CountFailure)
	done(r, attribution)
	if !r.WroteAt.IsZero() {
		a.calls++
		a.sentAt = r.WroteAt
		a.limiter.Used(a.used, r.WroteAt)
		a.metrics.sent(a.workItem, a.calls, r.WroteAt)
	}
	if refused, ok := errors.AsType[*dedup.RefusedError](r.Err); ok {
		e := a.beforeCall()
		e.refusal = refused.Answer
		return e
	}
	return event{
		hasResult: true, result: r, attribution: attribution, expired: errors.Is(r.Err, errExpired),
		sleepersFull: r.Kind != sender.Accepted && a.sleepersFull(), jitter: rand.Float64(),
	}
}

var (
	errExpired  = errors.New("the job's not-after has passed")
	errTimedOut = errors.New("the job has been in flight for longer than job_timeout")
)

// permit waits for the time of the job's slot, when all else is ready for the call. If the
// slot is too late by then, or was given to a call that could not be written, the job
// gets another one ahead of all others. It gives back the slot of a job that is not to be
// called any more.
func (a *attempt) permit(ctx context.Context) (time.Time, error) {
	if !a.used.IsZero() {
		a.limiter.Missed(a.used) // it was given, and not written
	}
	for {
		if a.slot.IsZero() {
			slot, err := a.limiter.Again(ctx)
			if err != nil {
				return time.Time{}, err
			}
			a.slot = slot
		}
		a.used, a.slot = a.slot, throttle.Slot{}
		useBy, err := a.awaitSlot(ctx)
		if err == nil {
			a.freePlace()
			return useBy, nil
		}
		if !errors.Is(err, throttle.ErrLate) {
			a.slot, a.used = a.used, throttle.Slot{}
			a.giveBackSlot()
			return time.Time{}, err
		}
		a.limiter.Missed(a.used)
	}
}

// giveBackSlot gives an unused slot back, for another job.
func (a *attempt) giveBackSlot() {
	if !a.slot.IsZero() {
		a.limiter.GiveBack(a.slot)
		a.slot = throttle.Slot{}
	}
}

// awaitSlot claims the job, waits for the time of its slot, and checks whether the
// job may still be called then. It returns by when the call must be written.
func (a *attempt) awaitSlot(ctx context.Context) (useBy time.Time, err error) {
	if useBy, err = a.claim(ctx); err != nil {
		return time.Time{}, err
	}
	switch err := a.used.Wait(ctx); {
	case err != nil:
		return time.Time{}, err
	case expired(a.d.Job.NotAfter, time.Now()):
		return time.Time{}, errExpired
	case a.d.TimedOut():
		return time.Time{}, errTimedOut
	}
	return useBy, nil
}

func expired(notAfter, now time.Time) bool { return !notAfter.IsZero() && now.After(notAfter) }
