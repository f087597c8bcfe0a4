package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/node/breaker"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// maxLead is how long before its slot a worker gets a job, at most: long enough to render
// the request, and no longer, since a worker that waits holds its job and connection. At
// high rates the lead is maxLeadSlots slots, so that one timer wakes the pacer instead
// of one for each worker.
const (
	maxLead      = 5 * time.Millisecond
	maxLeadSlots = 16
)

// With a dedup store the job is claimed in that time. The lead is long enough that a claim
// can share a call to Redis with others, and never so short that the job's call would
// wait for the claim.
const (
	leadWithClaim    = 10 * time.Millisecond
	minLeadWithClaim = 4 * time.Millisecond
)

// maxUnwritten is how many work items may be between the pacer and the write of their
// calls. With more, a node that is short of CPU would run hundreds of goroutines before a
// slot's write. The write would be late, which costs a connection; a job that
// waits in the consumer costs nothing.
const maxUnwritten = 64

// workItem is a job that a worker is to call.
type workItem struct {
	d     *consumer.Delivery
	conn  sender.Conn   // for its call; none: the call opens one
	slot  throttle.Slot // none: the connection holds an error, or the limit had no room
	since time.Time     // when the pacer began to wait for its slot
	full  bool          // the limit had no room for it, and jobs are not to wait

	sample bool // see [breaker.Breaker.StartSample]
}

// jobs is the consumer, as far as the pacer needs it.
type jobs interface {
	Ready() <-chan struct{}
	ReadyJobs() int
	Take() *consumer.Delivery
	TakeSample() *consumer.Delivery
}

// connections is the sender, as far as the pacer needs it.
type connections interface {
	Prepare(d sender.Demand) bool
	Await(ctx context.Context, d sender.Demand) error
	Take() sender.Conn
}

// pacer takes slots from the limiter while jobs are ready. It takes the best job only when a slot is
// near, so that an urgent job need not wait behind jobs that came earlier. It hands the job, with its
// slot and a connection, to a worker. It takes a slot only when a connection is
// ready: the slot would pass while one is dialled. It is one goroutine, which keeps
// the order and needs no lock.
type pacer struct {
	jobs        jobs
	items       chan<- workItem
	conns       connections
	limiter     *throttle.Limiter
	breaker     *breaker.Breaker
	maxConns    int           // dialled ahead: as many as there are workers
	idleTimeout time.Duration // of a connection; 0: none
	places      chan struct{} // holds a token for each work item whose call is not written yet
	blocked     *atomic.Bool  // jobs wait, and could not use a slot
	claims      bool          // there is a dedup store
	slot        throttle.Slot // left over from jobs that were taken away
}

// blockedAfter is how long the pacer waits for a place or a connection, before the
// limiter stops reserving slots that other nodes could use.
const blockedAfter = 20 * time.Millisecond

// run returns when the consumer has ended. After the end of ctx it hands no job out.
func (p *pacer) run(ctx context.Context) {
	defer close(p.items)
	for range p.jobs.Ready() {
		for p.jobs.ReadyJobs() > 0 && p.next(ctx) == nil {
		}
	}
}

// next hands one job to a worker, if a job still waits when the slot is near. If not,
// the slot stays for the next job. An error means that ctx has ended.
func (p *pacer) next(ctx context.Context) error {
	since := time.Now()
	if err := p.awaitPlace(ctx); err != nil {
		return err
	}
	if p.jobs.ReadyJobs() == 0 { // they were taken away while the provider was down
		<-p.places
		return context.Cause(ctx)
	}
	item := workItem{since: since}
	err := p.obtainSlot(ctx)
	switch {
	case errors.Is(err, throttle.ErrFull):
		item.full, err = true, nil
	case err != nil && ctx.Err() == nil:
		item.conn, err = sender.Unreached(err), nil // the job's call fails with it, so that the breaker counts the outage
	}
	if err == nil {
		item.d, item.sample = p.take()
	}
	if item.d == nil {
		<-p.places
		return context.Cause(ctx)
	}
	if item.conn.IsZero() {
		item.slot, p.slot = p.slot, throttle.Slot{}
		item.conn = p.conns.Take()
	}
	p.items <- item
	return nil
}

// obtainSlot waits for a connection and for a slot, and then until the slot is near. An
// error is the context's cause, ErrFull, or why no connection could be opened.
func (p *pacer) obtainSlot(ctx context.Context) error {
	if grants(p.limiter.State().Phase) {
		if err := p.connect(ctx); err != nil {
			return err
		}
	}
	if p.slot.IsZero() || p.slot.LateAt(time.Now()) {
		var err error
		if p.slot, err = p.limiter.Next(ctx); err != nil {
			return err
		}
		// The reservation may have taken long, and the connection closed meanwhile.
		if err := p.connect(ctx); err != nil {
			return err
		}
	}
	return p.slot.WaitNear(ctx, p.lead())
}

// connect waits until a connection is ready. Where slots are rare a connection would be
// closed again before its slot, and the worker opens one when it has the slot.
func (p *pacer) connect(ctx context.Context) error {
	d := p.demand()
	// Without jobs, which may have been taken away meanwhile, nothing is dialled.
	if d.Jobs == 0 || p.rare() || p.conns.Prepare(d) {
		return nil
	}
	timer := time.AfterFunc(blockedAfter, func() { p.blocked.Store(true) })
	defer func() {
		timer.Stop()
		p.blocked.Store(false)
	}()
	return p.conns.Await(ctx, d)
}

// rare reports whether a connection may close from one slot to the next.
func (p *pacer) rare() bool {
	return p.idleTimeout > 0 && p.limiter.Spacing() > p.idleTimeout/2
}

// grants reports whether a limiter grants slots in this phase. In the other phases no
// connection is dialled, since it might wait for long.
func grants(p throttle.Phase) bool {
	return p == throttle.PhaseRunning || p == throttle.PhaseReserve
}

// demand is which connections the waiting jobs need. A provider that is down is probed
// on one connection.
func (p *pacer) demand() sender.Demand {
	jobs := min(p.jobs.ReadyJobs(), p.maxConns)
	if !p.breaker.Closed() {
		jobs = min(jobs, 1)
	}
	return sender.Demand{Jobs: jobs, Every: p.limiter.Spacing()}
}

// take takes the best job or, where calls fail, now and then a sample.
func (p *pacer) take() (d *consumer.Delivery, sample bool) {
	if !p.breaker.StartSample() {
		return p.jobs.Take(), false
	}
	if d = p.jobs.TakeSample(); d == nil {
		p.breaker.EndSample()
	}
	return d, d != nil
}

// awaitPlace waits until the provider may be called, and takes a place for the call.
func (p *pacer) awaitPlace(ctx context.Context) error {
	defer p.blocked.Store(false)
	if !p.breaker.TakeTurn() {
		p.blocked.Store(true)
		if err := p.breaker.Await(ctx); err != nil {
			return err
		}
	}
	select {
	case p.places <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(blockedAfter)
	defer timer.Stop()
	for {
		select {
		case p.places <- struct{}{}:
			return nil
		case <-timer.C:
			p.blocked.Store(true)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lead is how long before its slot a worker gets a job.
func (p *pacer) lead() time.Duration {
	if p.rare() {
		return p.idleTimeout // the worker may have to dial
	}
	few := maxLeadSlots * p.limiter.Spacing()
	if p.claims {
		return min(leadWithClaim, max(minLeadWithClaim, few))
	}
	return min(maxLead, few)
}
