package node

import (
	"context"
	"errors"
	"strconv"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/dedup"
	"dispatcher/job"
	"dispatcher/sender"
)

// This file is what the dedup store adds to a job's way. Without one a try has
// no entry, and each step is as if it weren't here.

// busyLook is how often a job that another delivery may be calling is looked at.
const busyLook = 250 * time.Millisecond

// open makes the job's entry.
func (t *try) open() {
	if t.dedup == nil {
		return
	}
	t.entryID = entryID(t.d)
	t.entry = t.dedup.Open(t.entryID)
}

// entryID names a job to the dedup store. An id from the value counts within the topic
// that the job was first written to: two topics may hold different jobs under one
// such id. A place counts together with its time: a topic that was created again,
// or one of another cluster, has other jobs there. A job that was replayed from
// the dead letters is another job: an operator wants it called again. No id and no
// topic holds a control character.
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

// claim asks for the job, for the slot in hand. It returns by when the call must
// be written.
func (t *try) claim(ctx context.Context) (useBy time.Time, err error) {
	if t.entry == nil {
		return t.used.NotAfter, nil
	}
	// A claim does not last for as long as a slot may lie ahead.
	if err := t.used.WaitNear(ctx, nearClaimed); err != nil {
		return time.Time{}, err
	}
	if useBy, err = t.entry.Permit(ctx, t.used.NotBefore); err != nil {
		return time.Time{}, err
	}
	if t.used.NotAfter.Before(useBy) {
		return t.used.NotAfter, nil
	}
	return useBy, nil
}

// release gives the claim up: the job was not called, or surely not done.
func (t *try) release() {
	if t.entry != nil {
		t.entry.Release()
	}
}

// giveBack returns the job, free for whoever gets it next.
func (t *try) giveBack() {
	t.spare()
	t.release()
	t.d.Release()
}

// missed says of a call that is to be made again whether it may have been done.
func (t *try) missed(r sender.Result) {
	switch {
	case t.entry == nil:
	case r.Kind == sender.Unknown:
		t.entry.Unknown()
	default:
		t.entry.Release()
	}
}

// done settles the job, once the dedup store knows that it was sent. Nobody waits for
// that. Where Redis did not take it in time it is settled all the same: the call
// was answered.
func (t *try) done(o consumer.Outcome) {
	if t.entry == nil {
		t.results.Done(t.d, o)
		return
	}
	t.d.Answered()
	ctx, end := t.outlast()
	t.entry.Done(ctx, noteAccepted, func(error) {
		end()
		t.results.Done(t.d, o)
	})
}

// dead settles a job that the provider was asked to take: the dedup store knows first
// what became of it, so that who gets it next does not ask again.
func (t *try) dead(f consumer.Failure, r sender.Result) {
	switch {
	case t.entry == nil:
	case r.WroteAt.IsZero():
		t.entry.Release()
	default:
		t.d.Answered()
		ctx, end := t.outlast()
		known := make(chan struct{})
		t.entry.Done(ctx, note(f.Class, r.Status), func(error) { close(known) })
		<-known
		end()
	}
	t.results.Dead(t.d, f, t.outcome(r))
}

// outlast is a context that ends some time after the job's own: what was sent is
// worth that.
func (t *try) outlast() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(t.d.Context(), func() { time.AfterFunc(t.grace, cancel) })
	return ctx, func() {
		stop()
		cancel()
	}
}

// refused carries out what the dedup store says of a job that may not be called. It
// returns whether the job is settled with that.
func (t *try) refused(a dedup.Answer) bool {
	for a.Standing == dedup.Busy && !t.d.TimedOut() {
		err := pause(t.d.Context(), min(a.Wait, busyLook), nil)
		if err == nil {
			a, err = t.dedup.Peek(t.d.Context(), t.entryID)
		}
		if err != nil {
			t.giveBack()
			return true
		}
	}
	switch {
	case a.Standing == dedup.Sent && a.Outcome == noteAccepted:
		t.results.Done(t.d, t.outcome(sender.Result{}))
	case a.Standing == dedup.Sent:
		class, r := noted(a.Outcome)
		t.results.Dead(t.d, failure(class, r, t.calls), t.outcome(r))
	case a.Standing == dedup.Unknown && t.policy.onUnknown != UnknownRetry:
		r := sender.Result{Err: errGivenUp}
		t.results.Dead(t.d, failure(consumer.ClassUnknown, r, t.calls), t.outcome(r))
	default: // free or taken over, as the next claim will say
		return false
	}
	return true
}

var (
	errGivenUp = errors.New("the node that was to call it ended without a word of the result; it may have been sent")
	errBefore  = errors.New("it was called before, with this result")
)

// What a done notes: 0 for a job that was accepted; else the class of its dead
// letter in thousands, and the status of the last call. The numbers stay as they
// are: Redis remembers them.
const (
	noteAccepted dedup.Outcome = 0

	notePermanent = 1
	noteExhausted = 2
	noteUnknown   = 3
	noteClass     = 1000
)

func note(c consumer.Class, status int) dedup.Outcome {
	of, ok := map[consumer.Class]int{consumer.ClassPermanent: notePermanent, consumer.ClassExhausted: noteExhausted}[c]
	if !ok {
		of = noteUnknown
	}
	return dedup.Outcome(of*noteClass + min(max(status, 0), noteClass-1))
}

// noted is what a note means. One that is not known is of a later release: the
// job was called, and that is all we can say.
func noted(o dedup.Outcome) (consumer.Class, sender.Result) {
	r := sender.Result{Status: int(o % noteClass), Err: errBefore}
	switch int(o) / noteClass {
	case notePermanent:
		return consumer.ClassPermanent, r
	case noteExhausted:
		return consumer.ClassExhausted, r
	}
	return consumer.ClassUnknown, r
}
