package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"dispatcher/consumer"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// near is how long before its slot a job goes to a worker, at most: time to
// render the request, and no longer, for whoever waits holds what it has. At high rates fewer slots than that are handed
// out ahead, so that one timer wakes the line and not one each worker.
const (
	near      = 5 * time.Millisecond
	nearSlots = 16
)

// With the dedup store a claim is on its way meanwhile: in company if it has the
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
	conn  sender.Conn   // for its call; none: the call opens one
	slot  throttle.Slot // none: the connection stands for an error
	since time.Time     // when it came to the head of the line
	full  bool          // there was no room for it, and it is not to wait

	sample bool // see gate.sample
}

// jobs is where the line takes them from.
type jobs interface {
	Ready() <-chan struct{}
	Waiting() int
	Take() *consumer.Delivery
	TakeSample() *consumer.Delivery
}

// connections is where the line gets them from: the sender.
type connections interface {
	Ready(d sender.Demand) bool
	Await(ctx context.Context, d sender.Demand) error
	Take() sender.Conn
}

// line waits for slots while jobs are ready, and only then takes the best job:
// one that came later and goes first has not to wait behind others. It hands
// each, with its slot and a connection, to a worker. It asks for a slot only when
// a connection is at hand: a slot that comes first would pass while one is dialled. It is one goroutine, so that order is kept
// and no lock is needed.
type line struct {
	jobs    jobs
	turns   chan<- turn
	conns   connections
	limiter *throttle.Limiter
	gate    *gate
	most    int           // connections that are dialled ahead: as many as there are workers
	keep    time.Duration // for which an idle connection is kept; 0: for ever
	wire    chan struct{} // holds a token for each turn that has not been written yet
	blocked *atomic.Bool  // jobs wait, and could not use a slot
	claims  bool          // there is a dedup store
	slot    throttle.Slot // left over from jobs that went away
}

// patience is how long the line may wait for a worker to write, or for a connection,
// before it stops asking for slots that other nodes could use.
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
	if l.jobs.Waiting() == 0 { // they were taken away while the provider was down
		<-l.wire
		return context.Cause(ctx)
	}
	t := turn{since: since}
	err := l.prepare(ctx)
	switch {
	case errors.Is(err, throttle.ErrFull):
		t.full, err = true, nil
	case err != nil && ctx.Err() == nil:
		t.conn, err = sender.Unreached(err), nil // a job's call, so that the outage is seen
	}
	if err == nil {
		t.d, t.sample = l.take()
	}
	if t.d == nil {
		<-l.wire
		return context.Cause(ctx)
	}
	if t.conn.IsZero() {
		t.slot, l.slot = l.slot, throttle.Slot{}
		t.conn = l.conns.Take()
	}
	l.turns <- t
	return nil
}

// prepare sees to it that a connection is at hand, and a slot that is near. An
// error is the context's cause, ErrFull, or why no connection could be opened.
func (l *line) prepare(ctx context.Context) error {
	if gives(l.limiter.State().Phase) {
		if err := l.connect(ctx); err != nil {
			return err
		}
	}
	if l.slot.IsZero() || l.slot.LateAt(time.Now()) {
		var err error
		if l.slot, err = l.limiter.Next(ctx); err != nil {
			return err
		}
		// It may have been long in coming, and the connection closed meanwhile.
		if err := l.connect(ctx); err != nil {
			return err
		}
	}
	return l.slot.WaitNear(ctx, l.lead())
}

// connect waits until a connection is at hand. Where slots are rare, the worker
// opens one when it has the slot: until then, one would be closed again.
func (l *line) connect(ctx context.Context) error {
	d := l.demand()
	// The jobs may have been taken away meanwhile: nothing would be dialled for none.
	if d.Jobs == 0 || l.rare() || l.conns.Ready(d) {
		return nil
	}
	timer := time.AfterFunc(patience, func() { l.blocked.Store(true) })
	defer func() {
		timer.Stop()
		l.blocked.Store(false)
	}()
	return l.conns.Await(ctx, d)
}

// rare reports whether a connection may be too old for use from one slot to the next.
func (l *line) rare() bool { return l.keep > 0 && l.limiter.Spacing() > l.keep/2 }

// gives reports whether a limiter gives slots in this phase. In the others nothing
// is dialled that might wait for long.
func gives(p throttle.Phase) bool {
	return p == throttle.PhaseRunning || p == throttle.PhaseReserve
}

// demand is what the jobs that wait need. A provider that is down is probed with
// one connection.
func (l *line) demand() sender.Demand {
	jobs := min(l.jobs.Waiting(), l.most)
	if !l.gate.isUp() {
		jobs = min(jobs, 1)
	}
	return sender.Demand{Jobs: jobs, Every: l.limiter.Spacing()}
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

// lead is how long before its slot a job goes to a worker.
func (l *line) lead() time.Duration {
	if l.rare() {
		return l.keep // its worker may have to dial
	}
	few := nearSlots * l.limiter.Spacing()
	if l.claims {
		return min(nearClaimed, max(leastClaimed, few))
	}
	return min(near, few)
}

func expired(notAfter, now time.Time) bool { return !notAfter.IsZero() && now.After(notAfter) }
