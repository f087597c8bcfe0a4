package consumer

import (
	"log/slog"
	"sync"
	"time"
)

// hub makes jobs ready, hands them out, and takes the word back when they are
// settled. One lock guards every ledger and queue, so that "is this assignment
// over?" and "mark this offset" are one step. It is never held across a wait.
//
// Whoever brings jobs (a fetcher), makes room (a worker that settles) or knows
// that it is time (keepTime) also makes the next ones ready.
type hub struct {
	ready chan struct{} // something became ready; one slot, since a second word says nothing new
	dead  *deadLetters
	order Order
	tiers []time.Duration // rising
	parks bool            // ClassUnknown goes to a topic of its own

	jobTimeout time.Duration // how long a job may be in hand; 0: for ever
	bytes      int           // what all partitions may hold together, about

	maxAsleep, maxAsleepBytes int
	log                       *slog.Logger

	mu          sync.Mutex
	lanes       []*lane // in order of priority
	alarms      *alarms
	asleep      int // jobs, as long as there is an alarm for them
	asleepBytes int
	toldCrowded bool
	since       map[*Delivery]time.Time // when each was taken, with a jobTimeout
	live        map[*assignment]struct{}
	finished    bool // ready is closed
}

func newHub(lanes []*lane, o *Options) *hub {
	return &hub{
		ready: make(chan struct{}, 1), lanes: lanes, order: o.Order, tiers: o.RetryTopics, parks: o.ParkUnknown, jobTimeout: o.JobTimeout, bytes: o.BufferBytes,
		log: o.Logger, maxAsleep: o.MaxAsleep, maxAsleepBytes: o.MaxAsleepBytes,
		alarms: newAlarms(), since: make(map[*Delivery]time.Time), live: make(map[*assignment]struct{}),
	}
}

// fetchedBatch is what one fetch brought.
type fetchedBatch struct {
	jobs   []Delivery // in the order of their offsets
	bytes  int
	next   int64 // where the following fetch begins
	stable int64 // the log's last stable offset
	gap    bool  // the log does not begin where it was asked to
}

// add takes in what was fetched. It returns whether there is room for more.
func (h *hub) add(p *partition, b *fetchedBatch) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.asg.draining {
		return false
	}
	if b.gap && p.tracker.End() == p.tracker.Low() {
		p.tracker.DropRestored()
	}
	for i := range b.jobs {
		p.buffer.push(&b.jobs[i])
	}
	p.count += len(b.jobs)
	p.bytes += b.bytes
	p.fetched, p.stable = b.next, b.stable
	if p.buffer.head == nil {
		p.tracker.PassTo(p.fetched)
	}
	p.lane.enlist(p)
	h.pump(p.lane)
	p.waiting = !p.room()
	return !p.waiting
}

// pump makes a lane's jobs ready while there is room, one a partition in turn:
// a full partition does not win over a slow one.
func (h *hub) pump(l *lane) {
	moved := false
	for l.room() && l.first != nil {
		p := l.delist()
		if p.asg.draining {
			continue
		}
		d := p.take()
		p.wakeFetcher()
		if d == nil {
			continue
		}
		l.enlist(p)
		l.push(d)
		moved = true
	}
	if moved {
		h.signal()
	}
}

// signal wakes the taker.
func (h *hub) signal() {
	if h.finished {
		return
	}
	select {
	case h.ready <- struct{}{}:
	default:
	}
}

// take hands out the best job that is ready; nil: none is. One whose not-after
// has passed goes to the dead letters instead.
func (h *hub) take() *Delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.takeBest()
}

func (h *hub) takeBest() *Delivery {
	for {
		l := pick(h.lanes)
		if l == nil {
			return nil
		}
		d := l.pop()
		if d.expired() {
			d.part.condemn(d, expiry(d))
			h.pump(l)
			continue
		}
		return h.handOut(d)
	}
}

// handOut notes that a worker has the job.
func (h *hub) handOut(d *Delivery) *Delivery {
	d.part.lane.inHand++
	d.part.taken++
	d.part.asg.inHand++
	if h.jobTimeout > 0 {
		h.since[d] = time.Now()
	}
	return d
}

// waiting is how many jobs are ready.
func (h *hub) waiting() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lanes {
		n += l.count
	}
	return n
}

// condemn queues what no worker is to see. It does not count as in hand; its
// assignment waits for it all the same.
func (h *hub) condemn(d *Delivery) {
	a := d.part.asg
	a.inHand++
	a.condemned = append(a.condemned, d)
	select {
	case a.doom <- struct{}{}:
	default:
	}
}

// doomed takes what has been condemned. At the end of the assignment it leaves
// that to drain: what is not being written then is not to be.
func (h *hub) doomed(a *assignment) []*Delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.ctx.Err() != nil {
		return nil
	}
	some := a.condemned
	a.condemned = nil
	return some
}

// settle carries out what became of a letter: done closes the offset, otherwise
// it stays open.
func (h *hub) settle(d *Delivery, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settleLocked(d, done)
}

// settleLocked carries out a verdict. After the end of its assignment only the
// room in hand is given back.
func (h *hub) settleLocked(d *Delivery, done bool) {
	if d.settled {
		return
	}
	d.settled = true
	p, a := d.part, d.part.asg
	if !a.over {
		p.settle(d, done)
	}
	if done {
		p.lane.done.tick(time.Now())
	}
	if d.doom == nil {
		h.leaveHand(d)
	} else if a.inHand--; a.draining && a.inHand == 0 {
		a.setIdle()
	}
	p.lane.enlist(p)
	h.pump(p.lane)
	p.wakeFetcher()
}

// open lets partitions of an assignment take part; false: it is ending.
func (h *hub) open(a *assignment, parts []*partition) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.draining {
		return false
	}
	h.live[a] = struct{}{}
	a.parts = append(a.parts, parts...)
	return true
}

// drain drops what was not handed out, also what is ready. The assignment's idle
// channel closes once everything in hand has been settled. A second call has no
// effect.
func (h *hub) drain(a *assignment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.draining {
		return
	}
	a.draining = true
	a.inHand -= len(a.condemned)
	a.condemned = nil
	for _, p := range a.parts {
		p.drop()
	}
	for _, one := range h.alarms.remove(func(one alarm) bool { return one.part.asg == a }) {
		if one.d != nil {
			h.rise(one.d)
		}
	}
	for _, l := range h.lanes {
		l.drop(a)
		h.pump(l) // the room is for others
	}
	if a.inHand == 0 {
		a.setIdle()
	}
}

// close ends an assignment: no mark counts after it. What it returns is the
// last word on the assignment's offsets.
func (h *hub) close(a *assignment) []commitPoint {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.over = true
	delete(h.live, a)
	return a.dirty()
}

// roomy takes the partitions of an assignment that have room again.
func (h *hub) roomy(a *assignment) []*partition {
	h.mu.Lock()
	defer h.mu.Unlock()
	some := a.roomy
	a.roomy = nil
	return some
}

// overBudget tells whether the node's partitions hold all that they may, and
// marks those of an assignment that hold their share of it then.
func (h *hub) overBudget(a *assignment) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	all, parts := 0, 0
	for live := range h.live {
		for _, p := range live.parts {
			all += p.held()
		}
		parts += len(live.parts)
	}
	scarce := all >= h.bytes
	share := max(h.bytes/max(parts, 1), leastShare)
	for _, p := range a.parts {
		p.over = scarce && p.held() >= share
	}
	return scarce
}

// dirty returns the offsets that Kafka doesn't have yet.
func (h *hub) dirty(a *assignment) []commitPoint {
	h.mu.Lock()
	defer h.mu.Unlock()
	return a.dirty()
}

// clean notes what Kafka has acknowledged.
func (h *hub) clean(points []commitPoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range points {
		c.part.committed, c.part.committedRev = c.Low, c.Rev
	}
}

// stillDirty leaves out the points that Kafka has acknowledged meanwhile.
func (h *hub) stillDirty(points []commitPoint) []commitPoint {
	h.mu.Lock()
	defer h.mu.Unlock()
	var left []commitPoint
	for _, c := range points {
		if c.part.committedRev != c.Rev {
			left = append(left, c)
		}
	}
	return left
}

// finish lets the taker go. All assignments are over by then, so nothing
// becomes ready any more.
func (h *hub) finish() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.finished = true
	close(h.ready)
}
