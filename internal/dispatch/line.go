package dispatch

import (
	"context"
	"time"

	"dispatcher/consumer"
	"dispatcher/throttle"
)

// near is how long before its slot a job goes to a worker: time to render the
// request and to have a connection at hand, and no longer, for whoever waits
// holds what it has.
const near = 5 * time.Millisecond

// turn is a job whose turn it is.
type turn struct {
	d     *consumer.Delivery
	slot  throttle.Slot
	since time.Time // when it came to the head of the line
}

// line takes jobs in delivery order and hands each, with its slot, to a worker.
// It is one goroutine, so that order is kept and no lock is needed.
type line struct {
	jobs    <-chan *consumer.Delivery
	turns   chan<- turn
	limiter *throttle.Limiter
	gate    *gate
	slot    throttle.Slot // left over from a job that went away
}

// run returns when the consumer closes its channel.
func (l *line) run() {
	for d := range l.jobs {
		since := time.Now()
		if err := l.wait(d.Context(), d.Job.NotAfter); err != nil {
			d.Return()
			continue
		}
		t := turn{d: d, slot: l.slot, since: since}
		l.slot = throttle.Slot{}
		l.turns <- t
	}
	close(l.turns)
}

// wait returns when the job's slot is near. An error means that the job was
// taken away; a slot that had come by then serves the next one. An expired job
// gets none.
func (l *line) wait(ctx context.Context, notAfter time.Time) error {
	if err := l.gate.open(ctx); err != nil {
		return err
	}
	if expired(notAfter, time.Now()) {
		return nil
	}
	if l.slot.IsZero() || l.slot.LateAt(time.Now()) {
		var err error
		if l.slot, err = l.limiter.Next(ctx); err != nil {
			return err
		}
	}
	return l.slot.WaitNear(ctx, near)
}

func expired(notAfter, now time.Time) bool { return !notAfter.IsZero() && now.After(notAfter) }
