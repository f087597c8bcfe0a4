package consumer

import (
	"time"

	"dispatcher/consumer/internal/offsets"
)

// A partition's buffer ends where either of these is reached; fetching pauses.
const (
	bufferJobs  = 1024
	bufferBytes = 1 << 20
	parkedBytes = 4 << 20 // of jobs that wait for an earlier one of their key, for their time, or for the dead letters
)

// leastShare of a node's bytes is each partition's, however many there are.
const leastShare = 16 << 10

// held is how many bytes of records a partition has in memory.
func (p *partition) held() int { return p.bytes + p.parked }

// list is a queue through Delivery.next.
type list struct{ head, tail *Delivery }

func (l *list) push(d *Delivery) {
	if l.tail == nil {
		l.head = d
	} else {
		l.tail.next = d
	}
	l.tail = d
}

func (l *list) pop() *Delivery {
	d := l.head
	if l.head = d.next; l.head == nil {
		l.tail = nil
	}
	d.next = nil
	return d
}

// partition is one partition for as long as one assignment lasts. The hub's
// lock guards everything below the first block.
type partition struct {
	*feed

	hub   *hub
	asg   *assignment
	id    int
	begin int64 // where the first fetch begins

	tracker offsets.Tracker
	keys    map[uint64]*Delivery // last of each chain, whose first one is ready or in hand

	oldest  *Delivery // of those that are open and not asleep
	newest  *Delivery
	buffer  list // fetched, in the order of their offsets
	freed   list // their predecessor is settled; they go before the buffer
	woken   list // their time has come; they go before the buffer
	retries list // failed jobs whose time has come; they take turns with the buffer
	yields  bool // it is the buffer's turn
	count   int  // in buffer
	bytes   int  // in buffer
	parked  int  // bytes in the chains behind keys, in freed, among the condemned and asleep
	asleep  int  // jobs that wait for their time
	taken   int  // jobs in hand
	napping bool // the first record in buffer is not due, and an alarm is set
	fetched int64
	waiting bool       // the fetcher waits until there is room
	over    bool       // holds its share of the node's bytes, which are used up; the fetcher's
	listed  bool       // in the lane's queue of those that may have something
	after   *partition // the next one in that queue

	committed    int64  // what Kafka has; -1: nothing yet
	committedRev uint64 // the ledger's revision then
	stable       int64  // last stable offset, as of the last fetch
}

// closedKey stands in keys for a key whose job was returned: nothing of it may
// be handed out any more.
func closedKey(d *Delivery) bool { return d.settled }

// room tells whether fetching may go on.
func (p *partition) room() bool {
	return p.count < bufferJobs && p.bytes < bufferBytes && p.parked < parkedBytes && p.tracker.Span() < offsets.PauseWindow && !p.hub.crowded()
}

// hasSome tells whether take may find something.
func (p *partition) hasSome() bool {
	return p.freed.head != nil || p.woken.head != nil || p.retries.head != nil || (p.buffer.head != nil && !p.napping)
}

// take finds the next job that may go; nil: none for now.
func (p *partition) take() *Delivery {
	if p.freed.head != nil {
		d := p.freed.pop()
		p.parked -= d.size
		return d
	}
	for p.woken.head != nil {
		if d := p.woken.pop(); p.free(d) {
			return d
		}
	}
	if d := p.takeRetry(); d != nil {
		return d
	}
	if d := p.takeFresh(); d != nil {
		p.yields = false
		return d
	}
	p.yields = false
	return p.takeRetry()
}

// takeRetry takes a job that failed before. The next turn is the buffer's, unless
// nothing there may go before the job is settled.
func (p *partition) takeRetry() *Delivery {
	for p.retries.head != nil && !p.yields {
		if d := p.retries.pop(); p.free(d) {
			p.yields = p.hub.order != OrderPartition
			return d
		}
	}
	return nil
}

func (p *partition) takeFresh() *Delivery {
	for p.buffer.head != nil {
		d := p.buffer.head
		if p.napping || p.hub.crowded() {
			return nil
		}
		if d.hop != nil && time.Until(d.hop.gate) > 0 {
			p.sleep(d.hop.gate)
			return nil
		}
		if d, ok := p.admitNext(); d != nil || !ok {
			return d
		}
	}
	p.tracker.PassTo(p.fetched)
	return nil
}

// admitNext takes the next job out of the buffer; nil: it may not go at once. Not
// ok: there is no room in the ledger.
func (p *partition) admitNext() (d *Delivery, ok bool) {
	admitted := p.tracker.Admit(p.buffer.head.Job.Offset)
	if admitted == offsets.BeyondWindow {
		return nil, false
	}
	d = p.buffer.pop()
	p.count--
	p.bytes -= d.size
	if admitted != offsets.Admitted {
		return nil, true
	}
	if past, ok := p.tracker.Attempts(d.Job.Offset); ok {
		d.attempts = past // from the partition's last owner
	}
	p.link(d)
	if p.free(d) {
		return d, true
	}
	return nil, true
}

// free tells whether an admitted job may go at once. If not, it has found its
// place: with the dead, among those that wait for their time, or in its chain.
func (p *partition) free(d *Delivery) bool {
	if d.doom == nil && d.expired() {
		d.doom = expiry(d)
	}
	if d.doom != nil {
		p.condemn(d, d.doom)
		return false
	}
	if d.hop != nil {
		if wait := time.Until(d.hop.due); wait > 0 {
			p.delay(d, wait)
			return false
		}
	}
	if d.key == 0 || d.chained { // chained: it has slept, and kept its key
		return true
	}
	last, inFlight := p.keys[d.key]
	if !inFlight {
		p.keys[d.key] = d
		d.chained = true
		return true
	}
	if !closedKey(last) {
		last.heir = d
		p.keys[d.key] = d
		d.chained = true
		p.parked += d.size
	}
	return false
}

// condemn gives a job over to the dead letters, or to a tier.
func (p *partition) condemn(d *Delivery, l *letter) {
	d.doom = l
	p.parked += d.size
	p.hub.condemn(d)
}

// release lets the next job of the key go, or closes the key after a return.
func (p *partition) release(d *Delivery, done bool) {
	if d.doom != nil {
		p.parked -= d.size
	}
	if !d.chained {
		return
	}
	heir := d.heir
	d.heir = nil
	switch {
	case !done:
		p.keys[d.key] = d
		for ; heir != nil; heir = heir.heir {
			p.parked -= heir.size
		}
	case heir == nil:
		delete(p.keys, d.key)
	default:
		p.freed.push(heir)
	}
}

// settle closes a job's offset and lets the next one of its key go. A returned
// job's offset stays open.
func (p *partition) settle(d *Delivery, done bool) {
	if done {
		p.unlink(d)
		p.tracker.Complete(d.Job.Offset)
		if p.buffer.head == nil {
			p.tracker.PassTo(p.fetched)
		}
	}
	p.release(d, done)
}

// drop forgets what was fetched and not handed out. Without moving fetched
// back, the next mark would take the dropped jobs for a gap, and complete.
func (p *partition) drop() {
	p.fetched = p.tracker.End()
	p.buffer, p.freed, p.woken, p.retries = list{}, list{}, list{}, list{}
	p.oldest, p.newest = nil, nil
	p.count, p.bytes, p.parked, p.asleep = 0, 0, 0, 0
}

// wakeFetcher tells the fetcher that there is room again.
func (p *partition) wakeFetcher() {
	if !p.waiting || !p.room() {
		return
	}
	p.waiting = false
	p.asg.roomy = append(p.asg.roomy, p)
	p.asg.wakeFetcher()
}
