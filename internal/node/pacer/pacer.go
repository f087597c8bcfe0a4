package pacer

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
	"dispatcher/internal/wait"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// Options of a [Pacer].
type Options struct {
	Jobs        Jobs
	Places      Places
	Connections Connections
	Limiter     *throttle.Limiter
	Breaker     *breaker.Breaker
	Gates       *gates.Gates
	Rules       *rules.Watcher // nil: there are none

	Workers     int           // as many connections are dialled ahead
	IdleTimeout time.Duration // of a connection; 0: none
	SlotTime    time.Duration // after the end of Run's context, in which a job that has a slot is handed out
	Lanes       int           // of jobs
	Claims      bool          // workers claim each job in a dedup store
}

// Jobs is the consumer, as far as the pacer needs it.
type Jobs interface {
	Ready() <-chan struct{}
	ReadyJobs() int
	ReadyLanes() uint16
	TakeFrom(lane int) *consumer.Delivery
	TakeSample() *consumer.Delivery
	PutBack(jobs []*consumer.Delivery)
	Defer(d *consumer.Delivery, o consumer.DeferOptions)
	Resume(jobs []*consumer.Delivery)
}

// Connections is the sender, as far as the pacer needs it.
type Connections interface {
	Prepare(d sender.Demand) bool
	Await(ctx context.Context, d sender.Demand) error
	Take() sender.Conn
}

// Pacer is the admission loop. It takes the best jobs, as many as one block of slots holds and
// connections are ready for, or more where gates have to choose among them. It asks for their slots
// in one call. Each job that got one goes to a worker shortly before it. A job that a gate refuses is
// deferred, one that a full bucket refuses goes to a worker at once, and the others go back. Make it
// with [New]; it can be run once.
type Pacer struct {
	o Options

	items   chan Item   // unbuffered: a job waits in the consumer, not in a channel
	blocks  chan []Item // blocks for the workers; one may wait. Refused jobs and failed dials have no slots
	probing bool        // the breaker has given a turn that no job has used yet
}

// New makes a pacer.
func New(o Options) *Pacer {
	return &Pacer{o: o, items: make(chan Item), blocks: make(chan []Item, 1)}
}

// Items are those for the workers. The pacer closes the channel when it ends.
func (p *Pacer) Items() <-chan Item { return p.items }

// Run admits jobs until the consumer has ended. After the end of ctx it reserves no slots, and soon hands no job out whose slot is
// still to come. It starts one goroutine, which hands the jobs out: so a Redis that is slow holds up no job that has a slot.
func (p *Pacer) Run(ctx context.Context) {
	handed := make(chan struct{})
	slots, end := wait.Longer(ctx, p.o.SlotTime)
	defer end()
	go func() {
		defer close(handed)
		p.giveToWorkers(slots)
		close(p.items)
	}()
	p.o.Rules.Await(ctx) // a job that is cancelled must not be called because its node has just started
	for range p.o.Jobs.Ready() {
		for p.o.Jobs.ReadyJobs() > 0 && p.reserveBlock(ctx) == nil {
		}
	}
	close(p.blocks)
	<-handed
}

// reserveBlock obtains slots for one block of jobs, or waits until it is worth to ask again. An
// error means that ctx has ended.
func (p *Pacer) reserveBlock(ctx context.Context) error {
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
		p.blocks <- refused
	}
	if len(block) == 0 {
		return nil
	}
	answers, err := p.o.Limiter.Reserve(ctx, requests(block))
	p.passOn(block, answers)
	return err
}

// awaitProvider waits until the provider may be called.
func (p *Pacer) awaitProvider(ctx context.Context) error {
	if p.probing {
		return nil
	}
	if !p.o.Breaker.TakeTurn() {
		if err := p.o.Breaker.Await(ctx); err != nil {
			return err
		}
	}
	p.probing = !p.o.Breaker.Closed()
	return nil
}

// requests are what the jobs want of the limiter.
func requests(block []Item) []throttle.Request {
	all := make([]throttle.Request, len(block))
	for i, item := range block {
		all[i] = item.Wants
	}
	return all
}

// awaitTurn waits for a connection, and until the limiter may be asked. It returns for which
// jobs. An error is the context's cause, or why no connection could be opened. Where slots are
// rare it opens a connection after the turn alone: one that was opened before would be closed by then.
func (p *Pacer) awaitTurn(ctx context.Context) (room throttle.Room, err error) {
	if grants(p.o.Limiter.State().Phase) && !p.rare() {
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
func (p *Pacer) turn(ctx context.Context) (throttle.Room, error) {
	if p.o.Lanes < 2 {
		return p.o.Limiter.Turn(ctx, throttle.OneLane, nil)
	}
	lanes := throttle.Lanes(p.o.Jobs.ReadyLanes())
	return p.o.Limiter.Turn(ctx, cmp.Or(lanes, throttle.OneLane), p.o.Jobs.Ready()) // there may be no job any more
}

// take takes the best jobs that there is room for. Each has a connection, since a slot would
// pass while one is dialled. Jobs without one are taken as well where the limit refuses jobs, and
// where there are more jobs than slots to choose from. Those refused want what can't be granted,
// or a rule cancels them.
func (p *Pacer) take(room throttle.Room, since time.Time) (block, refused []Item) {
	if !p.o.Breaker.Closed() {
		room.Jobs = 1
	}
	dials := p.o.Limiter.Refuses()
	units := int64(0)
	for len(block) < room.Jobs && units < room.Units {
		item := Item{Began: since, Conn: p.o.Connections.Take()}
		if item.Conn.IsZero() && !dials && !room.Choice {
			p.lack(min(room.Jobs-len(block), int(room.Units-units)))
			break
		}
		if item.Conn.IsZero() && !dials && len(block) == 0 {
			break
		}
		if !p.takeJob(&item, room.Lane) {
			item.Conn.Release()
			break
		}
		if item.Refused != nil {
			p.o.Gates.Drop(item.Delivery)
			item.Conn.Release()
			item.Conn = sender.Conn{}
			refused = append(refused, item)
			continue
		}
		units += item.Wants.Cost
		block = append(block, item)
	}
	return block, refused
}

// takeJob takes the best job of a lane that no rule holds and no gate is known to refuse. Those before it wait until
// their gates let them pass. A job that a rule cancels, or that wants what can't be granted, is refused.
func (p *Pacer) takeJob(item *Item, lane int) bool {
	take := func() *consumer.Delivery { return p.o.Jobs.TakeFrom(lane) }
	for {
		if item.Delivery, item.Sample = p.takeOne(take); item.Delivery == nil {
			if p.resume() {
				continue
			}
			return false
		}
		now := time.Now()
		if p.underRule(item, now) {
			continue
		}
		if item.Refused == nil {
			item.Wants, item.Refused = p.o.Gates.Request(item.Delivery)
		}
		if item.Refused != nil {
			return true
		}
		item.Wants.Lane = lane
		wait, shut := p.o.Gates.Shut(item.Delivery, item.Wants, now)
		if !shut {
			return true
		}
		p.deferJob(item, wait)
	}
}

// HeldBy begins the name under which a job waits that a rule holds. No limit's name has a blank.
const HeldBy = "rule "

// underRule looks whether an operator's rule is about the job. A cancelled job is refused. A held one waits, and is looked at
// again.
func (p *Pacer) underRule(item *Item, now time.Time) (held bool) {
	d := item.Delivery
	rule := p.o.Rules.Match(func() *expression.Job { return expression.JobOf(&d.Job, d.Lane(), d.JobTopic()) }, now)
	if rule == nil {
		return false
	}
	if rule.Kind == rules.Cancel {
		item.Refused = &rules.CancelledError{Rule: *rule}
		return false
	}
	p.o.Gates.Drop(item.Delivery)
	p.deferJob(item, consumer.DeferOptions{Until: now.Add(gates.Recheck), Passes: rule.Until, Limit: HeldBy + rule.ID, Held: true})
	return true
}

// resume ends the wait of jobs that wait no longer for those before them, and reports whether
// there are any.
func (p *Pacer) resume() bool {
	due := p.o.Gates.Due(time.Now())
	if len(due) > 0 {
		p.o.Jobs.Resume(due)
	}
	return len(due) > 0
}

// deferJob has a job wait until its gates let it pass.
func (p *Pacer) deferJob(item *Item, wait consumer.DeferOptions) {
	if item.Sample {
		p.o.Breaker.EndSample()
	}
	p.o.Jobs.Defer(item.Delivery, wait)
}

// takeOne takes the best job or, where calls fail, now and then a sample of any lane.
func (p *Pacer) takeOne(best func() *consumer.Delivery) (d *consumer.Delivery, sample bool) {
	if !p.o.Breaker.StartSample() {
		return best(), false
	}
	if d = p.o.Jobs.TakeSample(); d == nil {
		p.o.Breaker.EndSample()
	}
	return d, d != nil
}

// passOn passes the jobs of a block on that have an answer, and puts the others back. Without
// answers, at the end of the context, it puts all back.
func (p *Pacer) passOn(block []Item, answers []throttle.Answer) {
	lendConnections(block, answers)
	now := time.Now()
	passed := block[:0]
	var back []*consumer.Delivery
	for i, item := range block {
		answer := throttle.Answer{}
		if i < len(answers) {
			answer = answers[i]
		}
		item.Slot, item.Refused = answer.Slot, answer.Err
		switch {
		case item.Refused != nil:
			item.Conn.Release()
		case !item.Slot.IsZero():
			item.Delivery.SetSlot(item.Slot.NotBefore)
			p.o.Gates.Passed(item.Delivery, item.Wants, item.Slot.NotBefore, now)
		default:
			item.Conn.Release()
			if answer.Until.IsZero() {
				if item.Sample {
					p.o.Breaker.EndSample()
				}
				back = append(back, item.Delivery)
			} else {
				p.deferJob(&item, p.o.Gates.RefusedBy(item.Delivery, item.Wants, answer, now))
			}
			continue
		}
		passed = append(passed, item)
	}
	p.o.Jobs.PutBack(back)
	p.resume()
	if slices.ContainsFunc(passed, func(item Item) bool { return !item.Slot.IsZero() }) {
		p.probing = false
	}
	if len(passed) > 0 {
		p.blocks <- passed
	}
}

// lendConnections gives jobs that have a slot and no connection those of jobs without a slot.
func lendConnections(block []Item, answers []throttle.Answer) {
	without := 0
	for i := range answers {
		if answers[i].Slot.IsZero() || !block[i].Conn.IsZero() {
			continue
		}
		for without < len(answers) && (!answers[without].Slot.IsZero() || block[without].Conn.IsZero()) {
			without++
		}
		if without == len(answers) {
			return
		}
		block[i].Conn, block[without].Conn = block[without].Conn, sender.Conn{}
	}
}
