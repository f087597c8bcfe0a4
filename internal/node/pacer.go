package node

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/expression"
	"dispatcher/internal/node/breaker"
	"dispatcher/internal/node/gates"
	"dispatcher/internal/rules"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// workItem is a job that a worker is to call.
type workItem struct {
	d     *consumer.Delivery
	conn  sender.Conn   // for its call; none: the call opens one
	slot  throttle.Slot // none: the connection holds an error, or the limit refused the job
	since time.Time     // when the pacer began to wait for its slot

	wants   throttle.Request
	refused error // the limit had no room for it, and jobs are not to wait; or what it wants can't be granted

	sample bool // see [breaker.Breaker.StartSample]
}

// jobs is the consumer, as far as the pacer needs it.
type jobs interface {
	Ready() <-chan struct{}
	ReadyJobs() int
	ReadyLanes() uint16
	Take() *consumer.Delivery
	TakeFrom(lane int) *consumer.Delivery
	TakeSample() *consumer.Delivery
	PutBack(jobs []*consumer.Delivery)
	Defer(d *consumer.Delivery, o consumer.DeferOptions)
	Resume(jobs []*consumer.Delivery)
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
// run is one goroutine, which admits. It starts another one, handOut. So a Redis that is slow
// holds up no job that has a slot.
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
	lanes       int           // of jobs
	gates       *gates.Gates
	rules       *rules.Watcher // nil: there are none

	admitted chan []workItem // blocks with their slots; one may wait
	probing  bool            // the breaker has given a turn that no job has used yet
}

// run returns when the consumer has ended. After the end of ctx it hands no job out whose slot is still to come.
func (p *pacer) run(ctx context.Context) {
	p.admitted = make(chan []workItem, 1)
	handed := make(chan struct{})
	go func() {
		defer close(handed)
		p.handOut(ctx)
		close(p.items)
	}()
	p.rules.Await(ctx) // a job that is cancelled must not be called because its node has just started
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
	room, err := p.awaitTurn(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, throttle.ErrMore) {
		return nil
	}
	if err != nil {
		p.failToConnect(err, since)
		return nil
	}
	block, refused := p.take(room, since)
	if len(refused) > 0 {
		p.admitted <- refused
	}
	if len(block) == 0 {
		return nil
	}
	answers, err := p.limiter.Reserve(ctx, requests(block))
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

// requests are what the jobs want of the limiter.
func requests(block []workItem) []throttle.Request {
	all := make([]throttle.Request, len(block))
	for i, item := range block {
		all[i] = item.wants
	}
	return all
}

// awaitTurn waits for a connection, and until the limiter may be asked. It returns for which
// jobs. An error is the context's cause, or why no connection could be opened.
func (p *pacer) awaitTurn(ctx context.Context) (room throttle.Room, err error) {
	if grants(p.limiter.State().Phase) {
		if err := p.connect(ctx); err != nil {
			return room, err
		}
	}
	if room, err = p.turn(ctx); err != nil {
		return room, err
	}
	// That may have taken long, and the connection closed meanwhile.
	return room, p.connect(ctx)
}

// turn waits until the limiter may be asked for jobs of one of the lanes that have some.
func (p *pacer) turn(ctx context.Context) (throttle.Room, error) {
	if p.lanes < 2 {
		return p.limiter.Turn(ctx, throttle.OneLane, nil)
	}
	lanes := throttle.Lanes(p.jobs.ReadyLanes())
	return p.limiter.Turn(ctx, cmp.Or(lanes, throttle.OneLane), p.jobs.Ready()) // there may be no job any more
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
	if d, sample := p.takeOne(p.jobs.Take); d != nil {
		p.probing = false
		p.gates.Drop(d)
		p.admitted <- []workItem{{d: d, conn: sender.Unreached(err), since: since, sample: sample}}
	}
}

// take takes the best jobs that there is room for. Each has a connection, since a slot would
// pass while one is dialled. Where slots are rare, or the limit refuses jobs, those without one
// are taken as well; and where some get no slot now. Those refused want what can't be granted.
func (p *pacer) take(room throttle.Room, since time.Time) (block, refused []workItem) {
	if !p.breaker.Closed() {
		room.Jobs = 1
	}
	dials := p.rare() || p.limiter.Refuses()
	units := int64(0)
	for len(block) < room.Jobs && units < room.Units {
		item := workItem{since: since}
		if !p.rare() {
			item.conn = p.conns.Take()
		}
		if item.conn.IsZero() && !dials && !room.Choice {
			p.lack(min(room.Jobs-len(block), int(room.Units-units)))
			break
		}
		if item.conn.IsZero() && !dials && len(block) == 0 {
			break
		}
		if !p.takeJob(&item, room.Lane) {
			item.conn.Release()
			break
		}
		if item.refused != nil {
			p.gates.Drop(item.d)
			item.conn.Release()
			item.conn = sender.Conn{}
			refused = append(refused, item)
			continue
		}
		units += item.wants.Cost
		block = append(block, item)
	}
	return block, refused
}

// lack has connections dialled for jobs that found none, for the next reservation.
func (p *pacer) lack(jobs int) {
	d := p.demand()
	d.Lacked = min(jobs, d.Jobs)
	p.conns.Prepare(d)
}

// takeJob takes the best job of a lane that no rule holds and no gate is known to refuse. Those before it wait until
// their gates let them pass. A job that a rule cancels, or that wants what can't be granted, is refused.
func (p *pacer) takeJob(item *workItem, lane int) bool {
	take := func() *consumer.Delivery { return p.jobs.TakeFrom(lane) }
	for {
		if item.d, item.sample = p.takeOne(take); item.d == nil {
			if p.resume() {
				continue
			}
			return false
		}
		now := time.Now()
		if p.underRule(item, now) {
			continue
		}
		if item.refused == nil {
			item.wants, item.refused = p.gates.Request(item.d)
		}
		if item.refused != nil {
			return true
		}
		item.wants.Lane = lane
		wait, shut := p.gates.Shut(item.d, item.wants, now)
		if !shut {
			return true
		}
		p.deferJob(item, wait)
	}
}

// heldBy begins the name under which a held job waits. No limit's name has a blank.
const heldBy = "rule "

// underRule looks whether an operator's rule is about the job. A cancelled job is refused. A held one waits, and is looked at
// again.
func (p *pacer) underRule(item *workItem, now time.Time) (held bool) {
	rule := p.rules.Match(func() *expression.Job { return expression.JobOf(&item.d.Job, item.d.Lane(), item.d.JobTopic()) }, now)
	if rule == nil {
		return false
	}
	if rule.Kind == rules.Cancel {
		item.refused = &rules.CancelledError{Rule: *rule}
		return false
	}
	p.gates.Drop(item.d)
	p.deferJob(item, consumer.DeferOptions{Until: now.Add(gates.Recheck), Limit: heldBy + rule.ID, Held: true})
	return true
}

// resume hands jobs out again that wait no longer for those before them, and reports whether
// there are any.
func (p *pacer) resume() bool {
	due := p.gates.Due(time.Now())
	if len(due) > 0 {
		p.jobs.Resume(due)
	}
	return len(due) > 0
}

// deferJob has a job wait until its gates let it pass.
func (p *pacer) deferJob(item *workItem, wait consumer.DeferOptions) {
	if item.sample {
		p.breaker.EndSample()
	}
	p.jobs.Defer(item.d, wait)
}

// takeOne takes the best job or, where calls fail, now and then a sample of any lane.
func (p *pacer) takeOne(best func() *consumer.Delivery) (d *consumer.Delivery, sample bool) {
	if !p.breaker.StartSample() {
		return best(), false
	}
	if d = p.jobs.TakeSample(); d == nil {
		p.breaker.EndSample()
	}
	return d, d != nil
}

// sort passes the jobs of a block on that have an answer, and puts the others back. Without
// answers, at the end of the context, it puts all back.
func (p *pacer) sort(block []workItem, answers []throttle.Answer) {
	lendConnections(block, answers)
	now := time.Now()
	admitted := block[:0]
	var back []*consumer.Delivery
	for i, item := range block {
		answer := throttle.Answer{}
		if i < len(answers) {
			answer = answers[i]
		}
		item.slot, item.refused = answer.Slot, answer.Err
		switch {
		case item.refused != nil:
			item.conn.Release()
		case !item.slot.IsZero():
			item.d.SetSlot(item.slot.NotBefore)
			p.gates.Passed(item.d, item.wants, item.slot.NotBefore, now)
		default:
			item.conn.Release()
			if answer.Until.IsZero() {
				if item.sample {
					p.breaker.EndSample()
				}
				back = append(back, item.d)
			} else {
				p.deferJob(&item, p.gates.RefusedBy(item.d, item.wants, answer, now))
			}
			continue
		}
		admitted = append(admitted, item)
	}
	p.jobs.PutBack(back)
	p.resume()
	if slices.ContainsFunc(admitted, func(item workItem) bool { return !item.slot.IsZero() }) {
		p.probing = false
	}
	if len(admitted) > 0 {
		p.admitted <- admitted
	}
}

// lendConnections gives jobs that have a slot and no connection those of jobs without a slot.
func lendConnections(block []workItem, answers []throttle.Answer) {
	without := 0
	for i := range answers {
		if answers[i].Slot.IsZero() || !block[i].conn.IsZero() {
			continue
		}
		for without < len(answers) && (!answers[without].Slot.IsZero() || block[without].conn.IsZero()) {
			without++
		}
		if without == len(answers) {
			return
		}
		block[i].conn, block[without].conn = block[without].conn, sender.Conn{}
	}
}
