package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer"
	"dispatcher/internal/dedup"
	"dispatcher/job"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// caller makes one call: a sender.
type caller interface {
	SendOn(ctx context.Context, on *sender.Conn, j job.Job, permit sender.Permit) sender.Result
}

// crew is what the workers share.
type crew struct {
	caller   caller
	limiter  *throttle.Limiter
	results  *consumer.Results // nil: none are written
	gate     *gate
	provider *provider
	policy   policy
	metrics  *metrics
	wire     <-chan struct{} // the line's tokens

	dedup *dedup.Store  // nil: there is none
	grace time.Duration // how long a done may go on when its job's context has ended

	attempts             int // calls that fail before a job is dead-lettered
	backoff, backoffMost time.Duration

	crowded func() bool // as many jobs sleep as may
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
	defer try.conn.Release()
	if try.conn.IsZero() {
		try.leaveWire() // dialling takes no place there
	}
	if t.sample {
		defer c.gate.sampled()
	}
	if t.full {
		try.leaveWire()
		c.results.Dead(t.d, deadletter.Failure{Class: deadletter.ClassLimited, Message: throttle.ErrFull.Error()}, try.outcome(sender.Result{}))
		return
	}
	try.d.Step("has a slot", slog.Time("at", t.slot.NotBefore))
	for !try.once() {
	}
}

// once is one call and what follows from it. It returns whether the job is
// settled with that.
func (t *try) once() (settled bool) {
	if t.d.TimedOut() {
		t.giveBack()
		return true
	}
	if class, over := t.over(); over {
		t.deadUncalled(class)
		return true
	}
	r, err := t.call()
	t.leaveWire()
	if errors.Is(err, errDown) {
		t.putBack()
		return true
	}
	if refused, ok := errors.AsType[*dedup.RefusedError](r.Err); ok {
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
		t.tryAgain(v, r)
	}
	return true
}

// over reports whether the job is not to be called any more, and why: its time is
// over, or its attempts are used up: on another node, or by a failure that was judged
// since.
func (t *try) over() (class deadletter.Class, over bool) {
	switch {
	case expired(t.d.Job.NotAfter, time.Now()):
		return deadletter.ClassExpired, true
	case t.failed >= t.attempts:
		return deadletter.ClassExhausted, true
	}
	return "", false
}

// deadUncalled settles a job that is not to be called any more.
func (t *try) deadUncalled(class deadletter.Class) {
	t.spare()
	t.leaveWire()
	if class != deadletter.ClassExhausted {
		t.release()
		t.results.Dead(t.d, deadletter.Failure{Class: class, Attempt: t.calls}, t.outcome(sender.Result{}))
		return
	}
	last := t.last
	if last.Err == nil { // of another node
		last.Err = fmt.Errorf("it failed %d times before, and retry.attempts is %d", t.failed, t.attempts)
	}
	t.dead(failure(class, last, t.calls), last)
}

// try is what one job has been through.
type try struct {
	*crew
	turn
	history
	used    throttle.Slot // the last slot that was given to the sender
	blamed  bool          // the job is to blame for the last call
	written bool          // or about to be: the line's token is given back
}

func (t *try) leaveWire() {
	if !t.written {
		t.written = true
		<-t.wire
	}
}

func (c *crew) newTry(t turn) *try {
	try := &try{crew: c, turn: t}
	if !try.recall() {
		try.open()
	}
	return try
}

// call makes one call. An error means that none was made, for the provider is down.
func (t *try) call() (sender.Result, error) {
	done, err := t.gate.enter()
	if err != nil {
		return sender.Result{}, err
	}
	t.used = throttle.Slot{}
	r := t.caller.SendOn(t.d.Context(), &t.conn, t.d.Job, t.permit)
	t.provider.note(r)
	t.d.Step("called", slog.String("result", r.Kind.String()), slog.Int("status", r.Status), slog.Time("wrote_at", r.WroteAt), slog.Any("error", r.Err))
	t.blamed = t.judge(r)
	done(r, t.blamed)
	if !r.WroteAt.IsZero() {
		t.calls++
		t.sentAt = r.WroteAt
		t.limiter.Used(t.used, r.WroteAt)
		t.metrics.sent(t.turn, t.calls, r.WroteAt)
	}
	return r, nil
}

// errExpired says that the job's not-after passed while it waited.
var errExpired = errors.New("the job's not-after has passed")

// errGone says that the job was in hand for too long and went elsewhere.
var errGone = errors.New("the job has been in hand for longer than job_timeout")

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
	case t.d.TimedOut():
		return time.Time{}, errGone
	}
	return useBy, nil
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
