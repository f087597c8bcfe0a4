package worker

import (
	"context"
	"errors"
	"strconv"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/internal/boottime"
	"dispatcher/internal/dedup"
	"dispatcher/internal/node/pacer"
	"dispatcher/internal/wait"
	"dispatcher/job"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// This file is the dedup store's part in a visit. Without a store a visit has
// no entry: a claim is granted at once, and its end has nothing to record.

// entryID names a job to the dedup store. An id from the value counts within the topic
// that the job was first written to: two topics may hold different jobs under one
// such id. A place (topic, partition and offset) counts together with its timestamp: a
// recreated topic, or one of another cluster, has other jobs there. A job that was
// replayed from the dead letters is another job: an operator wants it called again. No
// id and no topic holds a control character.
func entryID(d *consumer.Delivery) string {
	id := d.Job.ID
	switch d.Job.IDFrom {
	case job.IDGiven:
	case job.IDValue:
		id += "\x00in " + d.FirstTopic()
	case job.IDPlace:
		id += "\x00at " + strconv.FormatInt(d.FirstWritten().UnixMilli(), 10)
	}
	if redrives := d.Redrives(); redrives > 0 {
		id += "\x00redrive " + strconv.Itoa(redrives)
	}
	return id
}

// lateAnswer is for how long an answer of the dedup store is awaited that comes too late for the job's slot: the
// job may have another slot then, and keep what it has prepared. Without an answer it goes back where it came from,
// since Redis may be away for longer than kafka.job_timeout.
const lateAnswer = time.Second

// claim claims the job for its slot. It returns by when the call must be
// written, or [throttle.ErrGivenUp] where the dedup store does not answer.
func (v *visit) claim(ctx context.Context) (useBy boottime.Deadline, err error) {
	useBy = v.Slot.Deadline(v.Slot.NotAfter)
	if v.entry == nil {
		return useBy, nil
	}
	// A slot may lie further ahead than a claim lasts.
	if err := v.Slot.WaitNear(ctx, pacer.LeadWithClaim); err != nil {
		return useBy, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, max(0, time.Until(v.Slot.NotAfter))+lateAnswer, throttle.ErrGivenUp)
	defer cancel()
	claimed, err := v.entry.Permit(ctx, v.Slot.NotBefore)
	if err != nil {
		return useBy, err
	}
	return useBy.And(claimed), nil
}

// pollDedup asks the dedup store again, after a wait, about a job that another
// delivery may be calling. Without an answer the job goes back where it came from.
func (v *visit) pollDedup(after time.Duration) event {
	if !v.Slot.IsZero() { // it is over by then
		v.o.Limiter.Unused(v.Slot)
		v.Slot = throttle.Slot{}
	}
	ctx := v.Delivery.Context()
	if !wait.For(ctx, after) {
		return event{hasResult: true, result: sender.Result{Kind: sender.NotSent, Err: context.Cause(ctx)}}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lateAnswer, throttle.ErrGivenUp)
	defer cancel()
	answer, err := v.o.Dedup.Peek(ctx, v.entryID)
	if err != nil {
		return event{hasResult: true, result: sender.Result{Kind: sender.NotSent, Err: err}, givenUp: errors.Is(err, throttle.ErrGivenUp)}
	}
	e := v.objections()
	e.refusal = answer
	return e
}

// endClaim ends the job's claim, then calls then. A record is written first, so that
// no later delivery calls the job again. If Redis has not acknowledged the record in time,
// the job is settled all the same: its call was answered.
func (v *visit) endClaim(d decision, then func()) {
	switch {
	case v.entry == nil:
	case d.claim == claimReleased:
		v.entry.Release()
	case d.claim == claimKept:
		v.entry.Unknown()
	case d.claim == claimRecorded:
		v.Delivery.Answered()
		ctx, end := v.recordContext()
		v.entry.Done(ctx, outcomeOf(d.class, d.last.Status), func(error) {
			end()
			then()
		})
		return
	}
	then()
}

// recordContext ends when a record to the dedup store is not awaited any more. A record of what was sent is worth half of a drain. But
// a job that is settled after the drain is delivered again, so the last attempt is made before that.
func (v *visit) recordContext() (context.Context, context.CancelFunc) {
	const spare = 250 * time.Millisecond // of a busy machine
	last := v.o.Drain - dedup.LastAttempts - spare
	worth := min(v.o.Drain/2, last)
	if ended := v.Delivery.Ended(); !ended.IsZero() {
		worth = min(worth, time.Until(ended.Add(last)))
	}
	return wait.Longer(v.Delivery.Context(), worth)
}

// The outcomes in the dedup store: 0 for a job that was accepted; else the class of
// its dead letter in thousands, and the status of the last call. The numbers are
// frozen: Redis holds them.
const (
	outcomeAccepted dedup.Outcome = 0

	outcomePermanent = 1
	outcomeExhausted = 2
	outcomeUnknown   = 3
	outcomeClass     = 1000
)

// outcomeOf is the outcome of a job that ends with a dead letter of this class or,
// without a class, was accepted.
func outcomeOf(c deadletter.Class, status int) dedup.Outcome {
	if c == "" {
		return outcomeAccepted
	}
	of, ok := map[deadletter.Class]int{deadletter.ClassPermanent: outcomePermanent, deadletter.ClassExhausted: outcomeExhausted}[c]
	if !ok {
		of = outcomeUnknown
	}
	return dedup.Outcome(of*outcomeClass + min(max(status, 0), outcomeClass-1))
}

// recorded reads an outcome. One that is not known is of a later release: the job was
// called, and no more is known.
func recorded(o dedup.Outcome) (deadletter.Class, sender.Result) {
	r := sender.Result{Status: int(o % outcomeClass), Err: errCalledBefore}
	switch int(o) / outcomeClass {
	case outcomePermanent:
		return deadletter.ClassPermanent, r
	case outcomeExhausted:
		return deadletter.ClassExhausted, r
	}
	return deadletter.ClassUnknown, r
}

var errCalledBefore = errors.New("it was called before, with this result")
