package worker

import (
	"errors"
	"fmt"
	"time"

	"dispatcher/configs"
	"dispatcher/consumer/deadletter"
	"dispatcher/internal/dedup"
	"dispatcher/internal/node/breaker"
	"dispatcher/internal/rules"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// Policy holds the settings that decide what follows a result.
type Policy struct {
	OnUnknown           string // configs.UnknownRetry, UnknownPark or UnknownDead
	Attempts            int    // failures attributed to a job before it is dead-lettered
	Backoff, MaxBackoff time.Duration
}

// history is what a job has been through on this node, and what a retry topic or
// another node said of it. It travels with the job while it sleeps.
type history struct {
	breaker.Record

	calls  int       // that left the process
	waits  int       // between its calls
	sentAt time.Time // when the last call left
}

// event is what happened to a job last. Its zero value means that nothing speaks against its
// call; it may still need a slot.
type event struct {
	refused     error // by the limit: it has no room and jobs are not to wait, or the job counts too much; or by a rule
	breakerOpen bool
	givenUp     bool // its slot was given up, and there may be none for long; or the dedup store does not answer
	timedOut    bool // job_timeout has passed
	expired     bool // not-after has passed

	refusal dedup.Answer // of the dedup store; no standing: it did not refuse the job

	hasResult    bool
	result       sender.Result // of a call
	attribution  breaker.Attribution
	sleepersFull bool    // as many jobs sleep as may
	jitter       float64 // random, from 0 to 1
}

// action is what is done with a job.
type action int

const (
	doCall       action = iota
	doPoll              // ask the dedup store again after a wait
	doSettle            // it is done
	doDeadLetter        // the consumer parks a job of ClassUnknown instead, where set
	doRelease           // give it back unsent
	doRequeue           // queue it again on this node, ahead of jobs that are not ready yet
	doRetry             // call it again after a wait
)

// claimEnd is what becomes of a job's claim in the dedup store.
type claimEnd int

const (
	claimReleased claimEnd = iota // the job was not called, surely not done, or answered with a status that is tried again
	claimKept                     // the call may have been done: nobody else may call before the claim ends
	claimRecorded                 // the store records what became of the job
)

// decision is what follows an event.
type decision struct {
	action action
	claim  claimEnd
	class  deadletter.Class // of a dead letter, or of a record on a retry topic
	last   sender.Result    // for the dead letter and the result record

	wait         time.Duration // before a retry or a poll
	retryTopic   bool          // retry by a retry topic, with order none and where there is one; else in memory
	wakeEarly    bool          // a retry in memory begins when the breaker closes, if that is before
	saveAttempts bool          // commit the attempts, in case the job can't be settled here
}

// decide says what follows an event in the life of a job. It is a pure function: it
// reads no clock and draws no random number.
func decide(p Policy, h history, e event) decision {
	switch {
	case e.refused != nil:
		return deadLetter(refusedClass(e.refused), sender.Result{Err: e.refused})
	case e.breakerOpen || e.givenUp:
		return decision{action: doRequeue}
	case e.refusal.Standing != 0 && !e.timedOut:
		return afterRefusal(p, h, e)
	case e.hasResult:
		return afterCall(p, h, e)
	}
	return beforeCall(p, h, e)
}

// refusedClass is the class of a dead letter whose job got no slot.
func refusedClass(why error) deadletter.Class {
	if errors.Is(why, throttle.ErrFull) {
		return deadletter.ClassLimited
	}
	if _, cancelled := errors.AsType[*rules.CancelledError](why); cancelled {
		return deadletter.ClassCancelled
	}
	return deadletter.ClassUnsupported
}

// beforeCall decides on a job against whose call nothing speaks so far. Its attempts may have been used up on
// another node, or by a failure that was attributed since.
func beforeCall(p Policy, h history, e event) decision {
	switch {
	case e.timedOut:
		return decision{action: doRelease}
	case e.expired:
		return deadLetter(deadletter.ClassExpired, sender.Result{})
	case h.Failures >= p.Attempts:
		last := h.Last
		if last.Err == nil { // of another node
			last.Err = fmt.Errorf("it failed %d times before, and retry.attempts is %d", h.Failures, p.Attempts)
		}
		return deadLetter(deadletter.ClassExhausted, last)
	}
	return decision{action: doCall}
}

// maxPollWait is how long after a poll the dedup store is asked again, at most.
const maxPollWait = 250 * time.Millisecond

// afterRefusal decides on a job that the dedup store lets nobody call now.
func afterRefusal(p Policy, h history, e event) decision {
	switch a := e.refusal; {
	case a.Standing == dedup.Busy:
		return decision{action: doPoll, wait: min(a.Wait, maxPollWait)}
	case a.Standing == dedup.Sent && a.Outcome == outcomeAccepted:
		return decision{action: doSettle}
	case a.Standing == dedup.Sent:
		return deadLetter(recorded(a.Outcome))
	case a.Standing == dedup.Unknown && p.OnUnknown != configs.UnknownRetry:
		return deadLetter(deadletter.ClassUnknown, sender.Result{Err: errNodeGone})
	}
	return beforeCall(p, h, e) // free or taken over, as the next claim will show
}

var errNodeGone = errors.New("the node that was to call it ended without recording the result; it may have been sent")

// afterCall decides by the result of a call. The exhaustive linter checks that each
// kind has a decision.
func afterCall(p Policy, h history, e event) decision {
	r := e.result
	switch r.Kind {
	case sender.Accepted:
		return decision{action: doSettle, claim: claimRecorded, last: r}
	case sender.Rejected:
		return deadLetter(deadletter.ClassPermanent, r)
	case sender.Throttled:
		return retry(p, h, e, "", r.RetryAfter)
	case sender.Unavailable:
		return retry(p, h, e, deadletter.ClassUnavailable, r.RetryAfter)
	case sender.Unknown:
		if p.OnUnknown == configs.UnknownRetry {
			return retry(p, h, e, deadletter.ClassUnknown, 0)
		}
		return deadLetter(deadletter.ClassUnknown, r)
	case sender.NotSent:
		if e.expired {
			return deadLetter(deadletter.ClassExpired, sender.Result{})
		}
	}
	return decision{action: doRelease}
}

// deadLetter ends a job. If its last call was written, the dedup store records that,
// so that no later delivery calls again.
func deadLetter(class deadletter.Class, last sender.Result) decision {
	d := decision{action: doDeadLetter, class: class, last: last}
	if !last.WroteAt.IsZero() {
		d.claim = claimRecorded
	}
	return d
}

// retry has a job called again, unless that was its last attempt. A job that waits
// for the end of an outage waits in memory, since the outage ends for all at once;
// where as many jobs sleep as may, it goes to a retry topic. It waits as long as the
// provider asked for.
func retry(p Policy, h history, e event, class deadletter.Class, asked time.Duration) decision {
	toJob := e.attribution == breaker.ToJob
	if toJob && h.Failures >= p.Attempts {
		d := deadLetter(deadletter.ClassExhausted, e.result)
		d.saveAttempts = true
		return d
	}
	d := decision{
		action: doRetry, class: class, last: e.result, saveAttempts: true,
		wait:       p.wait(h.waits, asked, e.jitter),
		retryTopic: toJob || e.attribution != breaker.Pending && e.sleepersFull,
		wakeEarly:  !toJob && asked == 0,
	}
	if e.result.Kind == sender.Unknown {
		d.claim = claimKept
	}
	return d
}

// wait is how long a job waits after so many waits: what the provider asked for and
// up to a tenth more or, where it asked for nothing, a backoff that doubles, from
// half of it to one and a half.
func (p Policy) wait(waits int, asked time.Duration, jitter float64) time.Duration {
	if asked > 0 {
		return asked + time.Duration(jitter*float64(asked/10))
	}
	b := p.Backoff
	for ; waits > 0 && b < p.MaxBackoff; waits-- {
		b *= 2
	}
	b = min(b, p.MaxBackoff)
	return b/2 + time.Duration(jitter*float64(b))
}
