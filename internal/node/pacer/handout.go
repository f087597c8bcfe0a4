package pacer

import (
	"context"
	"slices"
	"time"

	"dispatcher/consumer"
	"dispatcher/throttle"
)

// MaxLead is how long before its slot a worker gets a job, at most, unless slots are rare: long
// enough to render the request, and no longer, since a worker that waits is a goroutine with a timer.
const MaxLead = 5 * time.Millisecond

// maxLeadSlots is the lead in slots at high rates, so that one timer wakes the pacer instead
// of one for each worker.
const maxLeadSlots = 16

// LeadWithClaim is the same where a worker claims the job in that time. It is long enough that a
// claim can share a call to Redis with others.
const LeadWithClaim = 10 * time.Millisecond

// minLeadWithClaim is so long that the job's call does not wait for the claim.
const minLeadWithClaim = 4 * time.Millisecond

// giveToWorkers gives the jobs of the blocks to workers, each shortly before its slot, in the
// order of the slots: a block may have earlier ones than the block before it. It returns when no
// block comes any more. A worker whose slot is over by then asks for another one. Jobs whose slots
// were given up go back, and at the end of the context those that would have to wait.
func (p *Pacer) giveToWorkers(ctx context.Context) {
	var waiting []Item // the earliest slot first
	timer := time.NewTimer(0)
	defer timer.Stop()
	ended := ctx.Done()
	for blocks := (<-chan []Item)(p.blocks); blocks != nil || len(waiting) > 0; {
		select {
		case block, ok := <-blocks:
			if !ok {
				blocks = nil
			}
			waiting = append(waiting, block...)
			slices.SortStableFunc(waiting, func(a, b Item) int { return a.Slot.NotBefore.Compare(b.Slot.NotBefore) })
		case <-timer.C:
		case <-ended:
			ended = nil
		}
		if waiting = p.handNear(ctx, waiting); len(waiting) > 0 {
			timer.Reset(time.Until(waiting[0].Slot.NotBefore) - p.lead())
		}
	}
}

// handNear hands the jobs out whose slots are near or over, and returns the others. At the end of
// the context there are none.
func (p *Pacer) handNear(ctx context.Context, waiting []Item) []Item {
	var back []*consumer.Delivery
	defer func() {
		if len(back) > 0 {
			p.o.Jobs.PutBack(back)
		}
	}()
	for i := range waiting {
		item := &waiting[i]
		if ctx.Err() == nil && time.Until(item.Slot.NotBefore) > p.lead() {
			return slices.Delete(waiting, 0, i)
		}
		if p.awaitPlace(ctx, item) != nil {
			p.letGo(item)
			back = append(back, item.Delivery)
			continue
		}
		if item.Conn.IsZero() && item.Refused == nil {
			item.Conn = p.o.Connections.Take()
		}
		p.items <- *item
	}
	clear(waiting)
	return waiting[:0]
}

// awaitPlace waits for a place among the unwritten calls. An error is a context's cause, or
// ErrGivenUp; then there is no place.
func (p *Pacer) awaitPlace(ctx context.Context, item *Item) error {
	if ctx.Err() != nil && !item.Slot.IsZero() && !item.Slot.OverAt(time.Now()) {
		return context.Cause(ctx)
	}
	if item.Slot.GivenUp() {
		return throttle.ErrGivenUp
	}
	select {
	case p.o.Places <- struct{}{}:
		return nil
	default:
	}
	select {
	case p.o.Places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-item.Context().Done(): // it may be released at once
		return context.Cause(item.Context())
	}
}

// letGo gives up what an item holds beside its job.
func (p *Pacer) letGo(item *Item) {
	item.Conn.Release()
	switch {
	case item.Slot.IsZero():
	case item.Slot.GivenUp():
		p.o.Limiter.Missed(item.Slot)
	default:
		p.o.Limiter.Unused(item.Slot)
	}
	if item.Sample {
		p.o.Breaker.EndSample()
	}
}

// lead is how long before its slot a worker gets a job.
func (p *Pacer) lead() time.Duration {
	if p.rare() {
		return p.o.IdleTimeout // to miss such a slot costs much, and the worker of a job without a connection has to dial
	}
	few := maxLeadSlots * p.o.Limiter.Spacing()
	if p.o.Claims {
		return min(LeadWithClaim, max(minLeadWithClaim, few))
	}
	return min(MaxLead, few)
}
