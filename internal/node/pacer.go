package node

import (
	"context"
	"slices"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/node/breaker"
	"dispatcher/sender"
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

// workItem is a job that a worker is to call.
type workItem struct {
	d     *consumer.Delivery
	conn  sender.Conn   // for its call; none: the call opens one
	slot  throttle.Slot // none: the connection holds an error, or the limit refused the job
	since time.Time     // when the pacer began to wait for its slot

	refused error // the limit had no room for it, and jobs are not to wait; or it counts too much

	sample bool // see [breaker.Breaker.StartSample]
}

// jobs is the consumer, as far as the pacer needs it.
type jobs interface {
	Ready() <-chan struct{}
	ReadyJobs() int
	Take() *consumer.Delivery
	TakeSample() *consumer.Delivery
	PutBack(jobs []*consumer.Delivery)
}

// connections is the sender, as far as the pacer needs it.
type connections interface {
	Prepare(d sender.Demand) bool
	Await(ctx context.Context, d sender.Demand) error
	Take() sender.Conn
}

// pacer is the admission loop. It takes the best jobs, as many as one block of slots
// holds and connections are ready for, and asks for their slots in one call. Jobs that
// got none go back. Each of the others goes to a worker shortly before its slot.
//
// run is one goroutine, which admits. It starts another one, which hands jobs to the
// workers in the order of their slots. So a Redis that is slow holds up no job that has a
// slot.
type pacer struct {
	jobs        jobs
	items       chan<- workItem
	conns       connections
	limiter     *throttle.Limiter
	breaker     *breaker.Breaker
	maxConns    int           // dialled ahead: as many as there are workers
	idleTimeout time.Duration // of a connection; 0: none
	places      chan struct{} // holds a token for each work item whose call is not written yet
	claims      bool          // there is a dedup store

	admitted chan []workItem // blocks with their slots; one may wait
	probing  bool            // the breaker has given a turn that no job has used yet
}

// run returns when the consumer has ended. After the end of ctx it hands no job out.
func (p *pacer) run(ctx context.Context) {
	p.admitted = make(chan []workItem, 1)
	handed := make(chan struct{})
	go func() {
		defer close(handed)
		for block := range p.admitted {
			p.hand(ctx, block)
		}
		close(p.items)
	}()
	for range p.jobs.Ready() {
		for p.jobs.ReadyJobs() > 0 && p.admit(ctx) == nil {
		}
	}
	close(p.admitted)
	<-handed
}

// admit obtains slots for one block of jobs, or waits until it is worth to ask again. An
// error means that ctx has ended.
func (p *pacer) admit(ctx context.Context) error {
	since := time.Now()
	if err := p.awaitProvider(ctx); err != nil {
		return err
	}
	units, err := p.awaitTurn(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		p.failToConnect(err, since)
		return nil
	}
	block := p.take(units, since)
	if len(block) == 0 {
		return nil
	}
	answers, err := p.limiter.Reserve(ctx, costs(block))
	p.sort(block, answers)
	return err
}

// awaitProvider waits until the provider may be called.
func (p *pacer) awaitProvider(ctx context.Context) error {
	if p.probing {
		return nil
	}
	if !p.breaker.TakeTurn() {
		if err := p.breaker.Await(ctx); err != nil {
			return err
		}
	}
	p.probing = !p.breaker.Closed()
	return nil
}

// costs are the units that the jobs count.
func costs(block []workItem) []int64 {
	costs := make([]int64, len(block))
	for i, item := range block {
		costs[i] = item.cost()
	}
	return costs
}

// cost is how many units the job counts.
func (w *workItem) cost() int64 { return int64(max(1, w.d.Job.Cost)) }

// awaitTurn waits for a connection, and until the limiter may be asked. It returns for how
// many units. An error is the context's cause, or why no connection could be opened.
func (p *pacer) awaitTurn(ctx context.Context) (units int64, err error) {
	if grants(p.limiter.State().Phase) {
		if err := p.connect(ctx); err != nil {
			return 0, err
		}
	}
	if units, err = p.limiter.Turn(ctx); err != nil {
		return 0, err
	}
	// That may have taken long, and the connection closed meanwhile.
	return units, p.connect(ctx)
}

// connect waits until a connection is ready. Where slots are rare a connection would be
// closed again before its slot, and the worker opens one when it has the slot.
func (p *pacer) connect(ctx context.Context) error {
	d := p.demand()
	// Without jobs, which may have been taken away meanwhile, nothing is dialled.
	if d.Jobs == 0 || p.rare() || p.conns.Prepare(d) {
		return nil
	}
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

// failToConnect makes a dial that failed the call of a job, so that the breaker counts the
// outage.
func (p *pacer) failToConnect(err error, since time.Time) {
	if d, sample := p.takeOne(); d != nil {
		p.probing = false
		p.admitted <- []workItem{{d: d, conn: sender.Unreached(err), since: since, sample: sample}}
	}
}

// take takes the best jobs, until they count so many units, each with a connection: a slot
// would pass while one is dialled. Where slots are rare, or the limit refuses jobs, those
// without one are taken as well.
func (p *pacer) take(units int64, since time.Time) (block []workItem) {
	if !p.breaker.Closed() {
		units = 1
	}
	rare, refuses := p.rare(), p.limiter.Refuses()
	for units > 0 {
		item := workItem{since: since}
		if !rare {
			item.conn = p.conns.Take()
		}
		if item.conn.IsZero() && !rare && !refuses {
			break
		}
		if item.d, item.sample = p.takeOne(); item.d == nil {
			item.conn.Release()
			break
		}
		units -= item.cost()
		block = append(block, item)
	}
	return block
}

// takeOne takes the best job or, where calls fail, now and then a sample.
func (p *pacer) takeOne() (d *consumer.Delivery, sample bool) {
	if !p.breaker.StartSample() {
		return p.jobs.Take(), false
	}
	if d = p.jobs.TakeSample(); d == nil {
		p.breaker.EndSample()
	}
	return d, d != nil
}

// sort passes the jobs of a block on that have an answer, and puts the others back.
// Without answers, at the end of the context, it puts all back.
func (p *pacer) sort(block []workItem, answers []throttle.Answer) {
	admitted := block[:0]
	var back []*consumer.Delivery
	for i, item := range block {
		if i < len(answers) {
			item.slot, item.refused = answers[i].Slot, answers[i].Err
		}
		switch {
		case item.refused != nil:
			item.conn.Release()
		case item.slot.IsZero():
			p.letGo(&item)
			back = append(back, item.d)
			continue
		}
		admitted = append(admitted, item)
	}
	p.jobs.PutBack(back)
	if slices.ContainsFunc(admitted, func(item workItem) bool { return !item.slot.IsZero() }) {
		p.probing = false
	}
	if len(admitted) > 0 {
		p.admitted <- admitted
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
		p.limiter.Unused()
	}
	if item.sample {
		p.breaker.EndSample()
	}
}

// hand hands the jobs of a block to workers, each shortly before its slot. A worker whose
// slot is over by then asks for another one. Jobs whose slots were given up go back, and all
// at the end of the context.
func (p *pacer) hand(ctx context.Context, block []workItem) {
	var back []*consumer.Delivery
	defer func() { p.jobs.PutBack(back) }()
	for i := range block {
		item := &block[i]
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
}

// awaitPlace waits until an item's slot is near or over, and for a place among the unwritten
// calls. An error is a context's cause, or ErrGivenUp; then there is no place.
func (p *pacer) awaitPlace(ctx context.Context, item *workItem) error {
	if !item.slot.IsZero() && !item.slot.OverAt(time.Now()) {
		if err := item.slot.WaitNear(ctx, p.lead()); err != nil {
			return err
		}
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
