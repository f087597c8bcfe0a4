package node

import (
	"context"
	"slices"
	"time"

	"dispatcher/consumer"
	"dispatcher/throttle"
)

// maxLead is how long before its slot a worker gets a job, at most: long enough to render
// the request, and no longer, since a worker that waits is a goroutine with a timer. At
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
// slot's write. The write would be late, which costs a connection; a job that waits in the
// pacer costs its slot alone.
const maxUnwritten = 64

// handOut hands the jobs of the admitted blocks to workers, each shortly before its slot, in the
// order of the slots: a block may have earlier ones than the block before it. It returns when no
// block comes any more. A worker whose slot is over by then asks for another one. Jobs whose slots
// were given up go back, and at the end of the context those that would have to wait.
func (p *pacer) handOut(ctx context.Context) {
	var waiting []workItem // the earliest slot first
	timer := time.NewTimer(0)
	defer timer.Stop()
	ended := ctx.Done()
	for blocks := (<-chan []workItem)(p.admitted); blocks != nil || len(waiting) > 0; {
		select {
		case block, ok := <-blocks:
			if !ok {
				blocks = nil
			}
			waiting = append(waiting, block...)
			slices.SortStableFunc(waiting, func(a, b workItem) int { return a.slot.NotBefore.Compare(b.slot.NotBefore) })
		case <-timer.C:
		case <-ended:
			ended = nil
		}
		if waiting = p.handNear(ctx, waiting); len(waiting) > 0 {
			timer.Reset(time.Until(waiting[0].slot.NotBefore) - p.lead())
		}
	}
}

// handNear hands the jobs out whose slots are near or over, and returns the others. At the end of
// the context there are none.
func (p *pacer) handNear(ctx context.Context, waiting []workItem) []workItem {
	var back []*consumer.Delivery
	defer func() {
		if len(back) > 0 {
			p.jobs.PutBack(back)
		}
	}()
	for i := range waiting {
		item := &waiting[i]
		if ctx.Err() == nil && time.Until(item.slot.NotBefore) > p.lead() {
			return slices.Delete(waiting, 0, i)
		}
		if p.awaitPlace(ctx, item) != nil {
			p.letGo(item)
			back = append(back, item.d)
			continue
		}
		if item.conn.IsZero() && item.refused == nil {
			item.conn = p.conns.Take()
		}
		p.items <- *item
	}
	clear(waiting)
	return waiting[:0]
}

// awaitPlace waits for a place among the unwritten calls. An error is a context's cause, or
// ErrGivenUp; then there is no place.
func (p *pacer) awaitPlace(ctx context.Context, item *workItem) error {
	if ctx.Err() != nil && !item.slot.IsZero() && !item.slot.OverAt(time.Now()) {
		return context.Cause(ctx)
	}
	if item.slot.GivenUp() {
		return throttle.ErrGivenUp
	}
	select {
	case p.places <- struct{}{}:
		return nil
	default:
	}
	select {
	case p.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-item.d.Context().Done(): // it may be released at once
		return context.Cause(item.d.Context())
	}
}

// letGo gives up what an item holds beside its job.
func (p *pacer) letGo(item *workItem) {
	item.conn.Release()
	switch {
	case item.slot.IsZero():
	case item.slot.GivenUp():
		p.limiter.Missed(item.slot)
	default:
		p.limiter.Unused(item.slot)
	}
	if item.sample {
		p.breaker.EndSample()
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
