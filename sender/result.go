package sender

import (
	"context"
	"strconv"
	"time"

	"dispatcher/internal/boottime"
)

// Permit waits until one call may be written, and returns the time by which the write
// must have begun; zero: whenever. It is called once for each try to write, when everything else
// is ready. An error means that the call must not be made (the node stops, or the job
// was taken away).
type Permit func(ctx context.Context) (useBy boottime.Deadline, err error)

// Kind is what happened to a call. The set is closed: the exhaustive linter checks
// the policy that maps a kind to a decision.
type Kind int

// The kinds of result.
const (
	// Accepted: the provider took the job.
	Accepted Kind = iota + 1
	// Rejected: the provider will never take this job.
	Rejected
	// Throttled: the provider says that it was called too often.
	Throttled
	// Unavailable: the provider could not be reached, or says that it can't take any
	// job now. A 5xx does not prove that the job was not done.
	Unavailable
	// Unknown: the call was written, and no answer came. The job may have been done.
	Unknown
	// NotSent: the permit was refused; nothing was written.
	NotSent
)

// Kinds lists every kind, in order.
func Kinds() []Kind {
	return []Kind{Accepted, Rejected, Throttled, Unavailable, Unknown, NotSent}
}

// String returns the kind in lower case, as in the label of a metric.
func (k Kind) String() string {
	switch k {
	case Accepted:
		return "accepted"
	case Rejected:
		return "rejected"
	case Throttled:
		return "throttled"
	case Unavailable:
		return "unavailable"
	case Unknown:
		return "unknown"
	case NotSent:
		return "not_sent"
	}
	return "kind " + strconv.Itoa(int(k))
}

// Result is what happened to one call.
type Result struct {
	Kind       Kind
	Status     int           // of HTTP; 0: there was none
	RetryAfter time.Duration // for how long the provider wants no call; 0: not stated
	Err        error         // for people; never holds the payload or a secret
	WroteAt    time.Time     // when the first byte was handed to the kernel; zero: never
	Elapsed    time.Duration // from the write to the end of the answer
	MessageID  string        // what the provider calls the message, at most 256 bytes; empty: not known
	Units      *int64        // that the provider counted for the call; nil: not stated
	Limit      string        // what a throttled answer says of the limit it is about, at most 256 bytes; empty: nothing

	// Answer is the beginning of an answer that did not accept the job, at most
	// [MaxAnswer] bytes of UTF-8. It may hold the payload, so it goes to dead letters
	// and never to a log.
	Answer string
}
