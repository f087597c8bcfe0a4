package node

import (
	"strconv"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/configs"
	"dispatcher/sender"
)

// OnUnknown says what follows when a call was written and no answer came.
type OnUnknown string

// The choices. A retry carries the same idempotency key.
const (
	UnknownRetry OnUnknown = configs.UnknownRetry
	UnknownPark  OnUnknown = configs.UnknownPark
	UnknownDead  OnUnknown = configs.UnknownDead
)

// fate is what is to be done with a job after a call.
type fate int

const (
	fateDone   fate = iota + 1 // settle it
	fateDead                   // dead-letter it
	fateReturn                 // give it back unsent
	fateRetry                  // call again after a wait
)

// verdict is what a result leads to.
type verdict struct {
	fate   fate
	class  deadletter.Class // of a dead letter, or of a retry that counts
	counts bool             // a retry that counts as an attempt, if the provider is otherwise up
	after  time.Duration    // the provider's own wait, for a retry; 0: our backoff
}

// policy maps what happened to what is to be done. It is a table: no state, no
// clock. The exhaustive linter holds it to the set of kinds.
type policy struct{ onUnknown OnUnknown }

func (p policy) decide(r sender.Result) verdict {
	switch r.Kind {
	case sender.Accepted:
		return verdict{fate: fateDone}
	case sender.Rejected:
		return verdict{fate: fateDead, class: deadletter.ClassPermanent}
	case sender.Throttled:
		return verdict{fate: fateRetry, after: r.RetryAfter}
	case sender.Unavailable:
		return verdict{fate: fateRetry, class: deadletter.ClassUnavailable, counts: true, after: r.RetryAfter}
	case sender.Unknown:
		if p.onUnknown == UnknownRetry {
			return verdict{fate: fateRetry, class: deadletter.ClassUnknown, counts: true}
		}
		return verdict{fate: fateDead, class: deadletter.ClassUnknown} // the consumer knows which of the two topics
	case sender.NotSent:
		return verdict{fate: fateReturn}
	}
	return verdict{fate: fateReturn}
}

// failure is what a dead letter says of the last call.
func failure(class deadletter.Class, r sender.Result, calls int) deadletter.Failure {
	f := deadletter.Failure{Class: class, Attempt: calls, Answer: r.Answer}
	if r.Status != 0 {
		f.Code = strconv.Itoa(r.Status)
	}
	if r.Err != nil {
		f.Message = r.Err.Error()
	}
	return f
}
