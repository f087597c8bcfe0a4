package dispatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"dispatcher/consumer"
	"dispatcher/internal/sendledger"
	"dispatcher/job"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// caller makes one call: a sender.
type caller interface {
	Send(ctx context.Context, j job.Job, permit sender.Permit) sender.Result
}

// crew is what the workers share.
type crew struct {
	caller  caller
	limiter *throttle.Limiter
	results *consumer.Results // nil: none are written
	gate    *gate
	policy  policy
	metrics *metrics
	wire    <-chan struct{} // the line's tokens

	ledger *sendledger.Ledger // nil: there is none
	grace  time.Duration      // how long a done may go on when its job's context has ended

	attempts             int // calls that fail before a job is dead-lettered
	backoff, backoffMost time.Duration

	answered atomic.Int64 // calls that the provider answered with yes or no
}

// work handles turns until the line closes.
func (c *crew) work(turns <-chan turn) {
	for t := range turns {
		c.handle(t)
	}
}

// handle is the way of one job from its slot to its settlement.
func (c *crew) handle(t turn) {
	try := c.newTry(t)
	defer try.leaveWire()
	if t.full {
		try.leaveWire()
		c.results.Dead(t.d, consumer.Failure{Class: consumer.ClassLimited, Message: throttle.ErrFull.Error()}, try.outcome(sender.Result{}))
		return
	}
	for !try.once() {
	}
}

// once is one call and what follows from it. It returns whether the job is
// settled with that.
func (t *try) once() (settled bool) {
	if t.d.Gone() {
		t.giveBack()
		return true
	}
	if expired(t.d.Job.NotAfter, time.Now()) {
		t.spare()
		t.leaveWire()
		t.release()
		t.results.Dead(t.d, consumer.Failure{Class: consumer.ClassExpired, Attempt: t.calls}, t.outcome(sender.Result{}))
		return true
	}
	r, err := t.call()
	t.leaveWire()
	if err != nil {
		t.giveBack()
		return true
	}
	if refused, ok := errors.AsType[*sendledger.RefusedError](r.Err); ok {
		return t.refused(refused.Answer)
	}
	v := t.policy.decide(r)
	switch {
	case errors.Is(r.Err, errExpired):
		return false // and is buried
	case v.fate == fateDone:
		t.done(t.outcome(r))
	case v.fate == fateReturn:
		t.giveBack()
	case v.fate == fateDead:
		t.dead(failure(v.class, r, t.calls), r)
	default:
		return t.again(v, r)
	}
	return true
}

// again sees to a call that is to be made again, and returns whether the job is
// settled with that.
func (t *try) again(v verdict, r sender.Result) (settled bool) {
	blamed := v.counts && t.blamed()
	t.d.Tried(consumer.Past{Calls: t.calls, Failures: t.failed})
	if blamed && t.failed >= t.attempts {
		t.dead(failure(consumer.ClassExhausted, r, t.calls), r)
		return true
	}
	t.missed(r)
	wait, early := t.backOff(v.after)
	if blamed {
		// An outage is waited for in place, since it ends for all at once.
		f := failure(v.class, r, t.calls)
		f.Failures = t.failed
		if t.d.Later(time.Now().Add(wait), f) {
			return true
		}
	}
	if pause(t.d.Context(), wait, early) != nil {
		t.giveBack()
		return true
	}
	return false
}

// try is what one job has been through.
type try struct {
	*crew
	turn
	used     throttle.Slot // the last slot that was given to the sender
	calls    int           // calls that left the process
	sentAt   time.Time     // when the last of them did
	failed   int           // those that failed while the provider served others
	answered int64         // of the crew, when this job began or failed last
	pauses   *backoff.ExponentialBackOff
	written  bool // or about to be: the line's token is given back

	entry   *sendledger.Entry // nil: there is no ledger
	entryID string
}

func (t *try) leaveWire() {
	if !t.written {
		t.written = true
		<-t.wire
	}
}

func (c *crew) newTry(t turn) *try {
	try := &try{crew: c, turn: t, calls: t.d.Past().Calls, failed: t.d.Past().Failures, answered: c.answered.Load()}
	try.open()
	return try
}

// call makes one call. An error means that none was made and none will be.
func (t *try) call() (sender.Result, error) {
	done, err := t.gate.enter(t.d.Context())
	if err != nil {
		return sender.Result{}, err
	}
	t.used = throttle.Slot{}
	r := t.caller.Send(t.d.Context(), t.d.Job, t.permit)
	done(r)
	if !r.WroteAt.IsZero() {
		t.calls++
		t.sentAt = r.WroteAt
		t.limiter.Used(t.used, r.WroteAt)
		t.metrics.sent(t.turn, t.calls, r.WroteAt)
	}
	if judgment(r) == nil && r.Kind != sender.Throttled {
		t.crew.answered.Add(1)
	}
	return r, nil
}

// errExpired says that the job's not-after passed while it waited.
var errExpired = errors.New("the job's not-after has passed")

// errGone says that the job was in hand for too long and went elsewhere.
var errGone = errors.New("the job has been in hand for longer than head_timeout")

// permit waits for the job's slot at the wire. If the slot has gone by, or was
// given to a call that could not be written, another one is taken at the head
// of the line: the job keeps its place. The slot of a job that is not to be called
// any more is given back.
func (t *try) permit(ctx context.Context) (time.Time, error) {
	if !t.used.IsZero() {
		t.limiter.Missed(t.used) // it was given, and not written
	}
	for {
		if t.slot.IsZero() {
			slot, err := t.limiter.Again(ctx)
			if err != nil {
				return time.Time{}, err
			}
			t.slot = slot
		}
		t.used, t.slot = t.slot, throttle.Slot{}
		useBy, err := t.present(ctx)
		if err == nil {
			t.leaveWire()
			return useBy, nil
		}
		if !errors.Is(err, throttle.ErrLate) {
			t.slot, t.used = t.used, throttle.Slot{}
			t.spare()
			return time.Time{}, err
		}
		t.limiter.Missed(t.used)
	}
}

// spare gives a slot back that is not needed, for another job.
func (t *try) spare() {
	if !t.slot.IsZero() {
		t.limiter.GiveBack(t.slot)
		t.slot = throttle.Slot{}
	}
}

// present waits for the time of the slot in hand, and sees whether the job may
// still be called then. It returns by when the call must be written.
func (t *try) present(ctx context.Context) (useBy time.Time, err error) {
	if useBy, err = t.claim(ctx); err != nil {
		return time.Time{}, err
	}
	switch err := t.used.Wait(ctx); {
	case err != nil:
		return time.Time{}, err
	case expired(t.d.Job.NotAfter, time.Now()):
		return time.Time{}, errExpired
	case t.d.Gone():
		return time.Time{}, errGone
	}
	return useBy, nil
}

// blamed takes in a failed call, and reports whether it counts: only if the
// provider has served other jobs since this one failed last. When it is down for
// all, no job is to blame.
func (t *try) blamed() bool {
	now := t.crew.answered.Load()
	counts := now != t.answered
	if counts {
		t.failed++
	}
	t.answered = now
	return counts
}

// backOff is how long to wait before the next call: as long as the provider
// asked for, with some jitter on top, or else a backoff that doubles. The latter
// ends early when the provider, having been down, answers again.
func (t *try) backOff(asked time.Duration) (wait time.Duration, early <-chan struct{}) {
	if t.pauses == nil {
		t.pauses = backoff.NewExponentialBackOff()
		t.pauses.InitialInterval, t.pauses.MaxInterval = t.doubled(t.d.Past().Failures), t.backoffMost
		t.pauses.Multiplier = 2
		t.pauses.Reset()
	}
	wait, early = t.pauses.NextBackOff(), t.gate.answersAgain()
	if asked > 0 {
		wait, early = asked+rand.N(asked/10+1), nil // what the provider asked for holds
	}
	return wait, early
}

// doubled is the backoff after so many failures.
func (t *try) doubled(failures int) time.Duration {
	b := t.backoff
	for ; failures > 0 && b < t.backoffMost; failures-- {
		b *= 2
	}
	return min(b, t.backoffMost)
}

func pause(ctx context.Context, wait time.Duration, early <-chan struct{}) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-early:
		return nil
	case <-timer.C:
		return nil
	}
}
