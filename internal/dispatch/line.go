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

// With the send ledger a claim is on its way meanwhile: in company if it has the
// time, and never so late that the call would have to wait for it.
const (
	nearClaimed  = 10 * time.Millisecond
	leastClaimed = 4 * time.Millisecond
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

	sample bool // see gate.sample
}

// jobs is where the line takes them from.
type jobs interface {
	Ready() <-chan struct{}
	Waiting() int
	Take() *consumer.Delivery
	TakeSample() *consumer.Delivery
}

// line waits for slots while jobs are ready, and only then takes the best job:
// one that came later and goes first has not to wait behind others. It hands
// each, with its slot, to a worker. It is one goroutine, so that order is kept
// and no lock is needed.
type line struct {
	jobs    jobs
	turns   chan<- turn
	limiter *throttle.Limiter
	gate    *gate
	wire    chan struct{} // holds a token for each turn that has not been written yet
	blocked *atomic.Bool  // jobs wait, and could not use a slot
	claims  bool          // there is a send ledger
	slot    throttle.Slot // left over from jobs that went away
}

// patience is how long the line may wait for a worker to write before it stops
// asking for slots that other nodes could use.
const patience = 20 * time.Millisecond

// run returns when the consumer is over. From the end of ctx on it hands nothing
// out any more.
func (l *line) run(ctx context.Context) {
	defer close(l.turns)
	for range l.jobs.Ready() {
		for l.jobs.Waiting() > 0 && l.next(ctx) == nil {
		}
	}
}

// next sees one job off, if there still is one when its slot is near. If not,
// the slot stays for another one. An error means that ctx has ended.
func (l *line) next(ctx context.Context) error {
	since := time.Now()
	if err := l.reach(ctx); err != nil {
		return err
	}
	err := l.book(ctx)
	full := errors.Is(err, throttle.ErrFull)
	var d *consumer.Delivery
	sample := false
	if err == nil || full {
		d, sample = l.take()
	}
	if d == nil {
		<-l.wire
		return context.Cause(ctx)
	}
	t := turn{d: d, slot: l.slot, since: since, full: full, sample: sample}
	l.slot = throttle.Slot{}
	l.turns <- t
	return nil
}

// take takes the best job or, where calls fail, now and then a sample.
func (l *line) take() (d *consumer.Delivery, sample bool) {
	if !l.gate.sample() {
		return l.jobs.Take(), false
	}
	if d = l.jobs.TakeSample(); d == nil {
		l.gate.sampled()
	}
	return d, d != nil
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
	return l.slot.WaitNear(ctx, l.lead())
}

// lead is how long before its slot a job goes to a worker.
func (l *line) lead() time.Duration {
	few := nearSlots * l.limiter.Spacing()
	if l.claims {
		return min(nearClaimed, max(leastClaimed, few))
	}
	return min(near, few)
}

func expired(notAfter, now time.Time) bool { return !notAfter.IsZero() && now.After(notAfter) }
