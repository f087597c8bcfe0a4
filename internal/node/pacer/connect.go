package pacer

import (
	"context"
	"math/bits"
	"time"

	"dispatcher/sender"
	"dispatcher/throttle/phase"
)

// connect waits until a connection is ready.
func (p *Pacer) connect(ctx context.Context) error {
	d := p.demand()
	// Without jobs, which may have been taken away meanwhile, nothing is dialled.
	if d.Jobs == 0 || p.o.Connections.Prepare(d) {
		return nil
	}
	return p.o.Connections.Await(ctx, d)
}

// rare reports whether a connection may close from one slot to the next.
func (p *Pacer) rare() bool {
	return p.o.IdleTimeout > 0 && p.o.Limiter.Spacing() > p.o.IdleTimeout/2
}

// grants reports whether a limiter grants slots in this phase. In the other phases no
// connection is dialled, since it might wait for long.
func grants(p phase.Phase) bool {
	return p == phase.Running || p == phase.Reserve
}

// demand is which connections the waiting jobs need. A provider that is down is probed
// on one connection.
func (p *Pacer) demand() sender.Demand {
	jobs := min(p.o.Jobs.ReadyJobs(), p.o.Workers)
	if !p.o.Breaker.Closed() {
		jobs = min(jobs, 1)
	}
	return sender.Demand{Jobs: jobs, Every: p.o.Limiter.Spacing()}
}

// failToConnect makes a dial that failed the call of a job, so that the breaker counts the
// outage. The job has passed rules and gates: its worker dials again where it begins late.
func (p *Pacer) failToConnect(err error, since time.Time) {
	item := Item{Conn: sender.Unreached(err), Began: since}
	lanes := p.o.Jobs.ReadyLanes()
	if lanes == 0 || !p.takeJob(&item, bits.TrailingZeros16(lanes)) {
		return
	}
	p.probing = false
	p.o.Gates.Drop(item.Delivery)
	if item.Refused != nil {
		item.Conn = sender.Conn{}
	}
	p.blocks <- []Item{item}
}

// lack has connections dialled for jobs that found none, for the next reservation.
func (p *Pacer) lack(jobs int) {
	d := p.demand()
	d.Lacked = min(jobs, d.Jobs)
	p.o.Connections.Prepare(d)
}
