package diversion

import (
	"fmt"
	"slices"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/offsets"
)

const (
	// MaxUntilDue is how long a job may wait in memory for its time where there are no retry
	// topics. Its offset stays open meanwhile, and the tracker opens at most [offsets.Window] offsets from there on.
	MaxUntilDue = time.Minute

	// slack lets a wait that was meant to be as long as a retry topic's be that, though
	// some of it has passed. The job is due at its own time all the same.
	slack = 10 * time.Millisecond
)

// Diversion says where a diverted job goes, and why.
type Diversion struct {
	Failure deadletter.Failure // without a class: nothing has failed, the job is due later
	Delay   time.Duration      // of the retry topic; 0: to the dead letters
	Due     time.Time          // in a retry topic
}

// Unreadable is that of a record that is no job.
func Unreadable(f deadletter.Failure) *Diversion { return &Diversion{Failure: f} }

// Expired is that of a job whose not-after has passed.
func Expired(a offsets.Attempts) *Diversion {
	return &Diversion{Failure: deadletter.Failure{Class: deadletter.ClassExpired, Calls: a.Calls}}
}

// TimedOut is that of a job that was in flight for so long, and is not settled. delays are those of the retry topics, rising.
func TimedOut(delays []time.Duration, after time.Duration, a offsets.Attempts, now time.Time) *Diversion {
	to := &Diversion{Failure: deadletter.Failure{
		Class: deadletter.ClassJobTimeout, Message: fmt.Sprintf("in flight for %v and not settled", after),
		Calls: a.Calls, Failures: a.Failures,
	}}
	if len(delays) > 0 {
		to.Delay = max(delay(delays, after), delays[0])
		to.Due = now.Add(to.Delay)
	}
	return to
}

// NotDue is that of a job that is due after a wait; nil: it waits in memory.
func NotDue(delays []time.Duration, wait time.Duration, due time.Time, a offsets.Attempts) *Diversion {
	if d := delay(delays, wait); d > 0 {
		return &Diversion{Failure: deadletter.Failure{Calls: a.Calls, Failures: a.Failures}, Delay: d, Due: due}
	}
	if len(delays) > 0 || wait <= MaxUntilDue {
		return nil
	}
	return &Diversion{Failure: deadletter.Failure{
		Class: deadletter.ClassUnsupported, Calls: a.Calls,
		Message: fmt.Sprintf("not-before: is more than %v ahead; kafka.retry_topics would allow it", MaxUntilDue),
	}}
}

// DelayOf is the longest delay of a retry topic that is over by the end of a wait; 0: none is.
func DelayOf(delays []time.Duration, wait time.Duration) time.Duration {
	return delay(delays, wait+slack)
}

func delay(delays []time.Duration, wait time.Duration) time.Duration {
	for _, d := range slices.Backward(delays) {
		if d <= wait {
			return d
		}
	}
	return 0
}
