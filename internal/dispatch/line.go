package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"dispatcher/consumer"
	"dispatcher/throttle"
)

// near is how long before its slot a job goes to a worker, at most: time to
// render the request and to have a connection at hand, and no longer, for
// whoever waits holds what it has. At high rates fewer slots than that are handed
// out ahead, so that one timer wakes the line and not one each worker.
const (
	near      = 5 * time.Millisecond
	nearSlots = 16
)

// atWire is how many turns may be between the line and their write at once. A
// node that is short of CPU would else have hundreds of goroutines to run before
// a slot's write, and find it late at the wire, where that costs a connection;
// in the line it costs nothing.
const atWire = 64

// turn is a job whose turn it is.
type turn struct {
	d     *consumer.Delivery
	slot  throttle.Slot
	since time.Time // when it came to the head of the line
	full  bool      // there was no room for it, and it is not to wait
}

// line takes jobs in delivery order and hands each, with its slot, to a worker.
// It is one goroutine, so that order is kept and no lock is needed.
type line struct {
	jobs    <-chan *consumer.Delivery
	turns   chan<- turn
	limiter *throttle.Limiter
	gate    *gate
	wire    chan struct{} // holds a token for each turn that has not been written yet
	blocked *atomic.Bool  // jobs wait, and could not use a slot
	slot    throttle.Slot // left over from a job that went away
}

// patience is how long the line may wait for a worker to write before it stops
// asking for slots that other nodes could use.
const patience = 20 * time.Millisecond

// run returns when the consumer closes its channel.
func (l *line) run() {
	for d := range l.jobs {
		since := time.Now()
		slot, err := l.wait(d.Context(), d.Job.NotAfter)
		full := errors.Is(err, throttle.ErrFull)
		if err != nil && !full {
			d.Return()
			continue
		}
		l.turns <- turn{d: d, slot: slot, since: since, full: full}
	}
	close(l.turns)
}

// wait returns the job's slot when it is near. An error means that the job was
// taken away, and a slot that had come by then serves the next one; or
// [throttle.ErrFull]. An expired job gets none.
func (l *line) wait(ctx context.Context, notAfter time.Time) (throttle.Slot, error) {
	if err := l.reach(ctx); err != nil {
		return throttle.Slot{}, err
	}
	if expired(notAfter, time.Now()) {
		return throttle.Slot{}, nil
	}
	if err := l.book(ctx); err != nil {
		if !errors.Is(err, throttle.ErrFull) { // then a worker has something to do, and gives the token back
			<-l.wire
		}
		return throttle.Slot{}, err
	}
	slot := l.slot
	l.slot = throttle.Slot{}
	return slot, nil
}

// reach waits until the provider may be called and a worker is free to do so.
func (l *line) reach(ctx context.Context) error {
	defer l.blocked.Store(false)
	if !l.gate.isOpen() {
		l.blocked.Store(true)
		if err := l.gate.open(ctx); err != nil {
			return err
		}
	}
	select {
	case l.wire <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case l.wire <- struct{}{}:
			return nil
		case <-timer.C:
			l.blocked.Store(true)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// book sees to it that there is a slot, and that it is near.
func (l *line) book(ctx context.Context) error {
	if l.slot.IsZero() || l.slot.LateAt(time.Now()) {
		var err error
		if l.slot, err = l.limiter.Next(ctx); err != nil {
			return err
		}
	}
	return l.slot.WaitNear(ctx, min(near, nearSlots*l.limiter.Spacing()))
}

func expired(notAfter, now time.Time) bool { return !notAfter.IsZero() && now.After(notAfter) }
