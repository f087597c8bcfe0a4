package pacer

import (
	"context"
	"time"

	"dispatcher/consumer"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// Item is a job that a worker is to call.
type Item struct {
	Delivery *consumer.Delivery
	Conn     sender.Conn   // for its call; none: the call opens one
	Slot     throttle.Slot // none: the connection holds an error, or the limit refused the job
	Began    time.Time     // when the pacer began to wait for its slot

	Wants   throttle.Request
	Refused error // the limit had no room for it, and jobs are not to wait; what it wants can't be granted; or a rule cancels it

	Sample bool // see [breaker.Breaker.StartSample]
}

// Context ends when the job is to be called no more. A job that has a slot is called a little longer than the others.
func (i *Item) Context() context.Context {
	if i.Slot.IsZero() {
		return i.Delivery.Context()
	}
	return i.Delivery.Calls()
}

// maxUnwritten is how many items may be between the pacer and the write of their
// calls. With more, a node that is short of CPU would run hundreds of goroutines before a
// slot's write. The write would be late, which costs a connection; a job that waits in the
// pacer costs its slot alone.
const maxUnwritten = 64

// Places holds a token for each item between the pacer and the write of its call. The pacer
// puts it in. The item's worker frees the place when the call has its permit, or when it has
// to dial or to ask for another slot first.
type Places chan struct{}

// NewPlaces makes the places of one pacer and its workers.
func NewPlaces() Places { return make(Places, maxUnwritten) }

// Free takes one token out.
func (p Places) Free() { <-p }
