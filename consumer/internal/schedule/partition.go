package schedule

import (
	"log/slog"
	"time"

	"dispatcher/consumer/internal/diversion"
	"dispatcher/consumer/internal/linked"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/order"
	"dispatcher/consumer/internal/states"
	"dispatcher/job"

	"golang.org/x/sys/cpu"
)

// Fetching of a partition pauses where it reaches any of these.
const (
	bufferJobs    = 1024
	bufferBytes   = 1 << 20
	heldBackBytes = 4 << 20
)

// Source is a topic that jobs come from: a topic of jobs, or one of its retry topics.
type Source struct {
	Topic    string
	JobTopic string // the topic itself, or that whose retry topic it is
	Lane     *Lane
	Delay    time.Duration // how long each record of a retry topic waits; 0: it is a topic of jobs
	// Tenant names the tenant of a job of a fair lane; nil: the lane is not fair. Its error says why a job has none.
	Tenant func(*job.Job) (string, error)
}

// Partition is one partition for as long as one assignment lasts. The scheduler's lock
// guards everything below the first block.
type Partition struct {
	src   *Source
	sched *Scheduler
	asg   *Assignment
	id    int
	begin int64 // where the first fetch begins

	_ cpu.CacheLinePad // each hand-out writes what is below, and would delay the fetcher, which reads what is above for each record

	tracker   offsets.Tracker
	keyQueues keyQueues

	open      openJobs
	buffer    list           // fetched, in the order of their offsets
	freed     list           // they hold their key and may go, as after Requeue; they go before the buffer
	woken     list           // their time has come; they go before the buffer
	returning list           // jobs that failed or waited for a limit, and whose time has come; they take turns with the buffer
	yields    bool           // it is the buffer's turn
	asleep    linked.Volume  // jobs that sleep
	deferred  map[string]int // jobs that wait for a limit, by its name
	diverted  linked.Volume  // jobs whose diversion is not written
	ready     linked.Volume  // in a fair lane: jobs that are ready
	inFlight  int            // handed out; not settled, or a worker still has them
	abandoned int            // of those: timed out and settled, so their offsets are complete
	headWaits bool           // the first record in buffer has to wait, and a timer is set

	fetched    int64      // where the next fetch begins
	fullBuffer bool       // the fetcher waits until there is room
	overShare  bool       // the node's bytes are used up, and it holds its share; owned by the fetcher
	listed     bool       // in the lane's queue of those that may have a job to make ready
	after      *Partition // the next one in that queue

	committed    int64  // what Kafka has; -1: nothing yet
	committedRev uint64 // the tracker's revision then
	stable       int64  // last stable offset, as of the last fetch
}

// PartitionOptions says where a partition begins.
type PartitionOptions struct {
	ID        int
	Tracker   offsets.Tracker
	Committed int64 // what Kafka has; -1: nothing yet
	Stable    int64 // last stable offset
}

// NewPartition makes a partition of the assignment. It takes part once
// [Assignment.Open] got it.
func (a *Assignment) NewPartition(src *Source, o PartitionOptions) *Partition {
	at := o.Tracker.Low()
	return &Partition{
		src: src, sched: a.sched, asg: a, id: o.ID, begin: at, fetched: at,
		tracker: o.Tracker, keyQueues: order.NewQueues[Delivery, links](), deferred: make(map[string]int), committed: o.Committed, stable: o.Stable,
	}
}

// ID is the partition's number.
func (p *Partition) ID() int { return p.id }

// Source is the topic.
func (p *Partition) Source() *Source { return p.src }

// Begin is where the first fetch begins, and the last stable offset known then.
func (p *Partition) Begin() (offset, stable int64) { return p.begin, p.stable }

// hasSome tells whether take may find a job.
func (p *Partition) hasSome() bool {
	return p.freed.Head() != nil || p.woken.Head() != nil || p.returning.Head() != nil || (p.buffer.Head() != nil && !p.headWaits)
}

// take takes the next job that may go; nil: none for now. fresh: it came out of the buffer.
func (p *Partition) take() (d *Delivery, fresh bool) {
	if p.freed.Head() != nil {
		return p.freed.Pop(), false
	}
	for p.woken.Head() != nil {
		if d := p.woken.Pop(); p.mayGo(d) {
			return d, false
		}
	}
	if d := p.takeReturning(); d != nil {
		return d, false
	}
	d = p.takeFresh()
	p.yields = false
	if d != nil {
		return d, true
	}
	return p.takeReturning(), false
}

// takeReturning takes a job that failed before, or that waited for a limit. The next turn is the buffer's; in partition order
// it is not, since no job of the buffer may go before this one is settled.
func (p *Partition) takeReturning() *Delivery {
	for p.returning.Head() != nil && !p.yields {
		if d := p.returning.Pop(); p.mayGo(d) {
			p.yields = p.sched.keys.Order() != order.Partition
			return d
		}
	}
	return nil
}

func (p *Partition) takeFresh() *Delivery {
	for p.buffer.Head() != nil {
		d := p.buffer.Head()
		if p.headWaits || p.sleepersFull() {
			return nil
		}
		if d.wait != nil && time.Until(d.wait.lookAt) > 0 {
			p.waitForHead(d.wait.lookAt)
			return nil
		}
		if d, ok := p.admitNext(); d != nil || !ok {
			return d
		}
	}
	p.tracker.SkipTo(p.fetched)
	return nil
}

// sample takes a fetched job, each with the same chance. The jobs before it keep their order,
// and their keys.
func (p *Partition) sample() *Delivery {
	freed := p.freed.Volume().Items
	n := p.sched.random(freed + p.buffer.Volume().Items)
	for at := freed; at <= n && p.buffer.Head() != nil; at++ {
		d, ok := p.admitNext()
		if !ok {
			break
		}
		if d != nil {
			p.freed.Push(d)
		}
	}
	return p.freed.Remove(min(n, p.freed.Volume().Items-1))
}

// admitNext takes the next job out of the buffer; nil: it may not go at once. Not ok: the
// tracker has no room.
func (p *Partition) admitNext() (d *Delivery, ok bool) {
	admission := p.tracker.Admit(p.buffer.Head().Job.Offset)
	if admission == offsets.BeyondWindow {
		return nil, false
	}
	d = p.buffer.Pop()
	if admission == offsets.AlreadyComplete {
		d.count(-1)
		return nil, true
	}
	d.on(states.Admit)
	if attempts, ok := p.tracker.Attempts(d.Job.Offset); ok {
		d.attempts = attempts // from the partition's last owner
	}
	p.open.Add(d)
	if p.mayGo(d) {
		return d, true
	}
	return nil, true
}

// mayGo tells whether an admitted job may go at once. If not, it is among the diverted jobs, asleep
// or in its key queue by then; or its key is closed, and it is dropped.
func (p *Partition) mayGo(d *Delivery) bool {
	if d.diversion == nil && d.expired() {
		d.diversion = diversion.Expired(d.attempts)
	}
	if d.diversion != nil {
		p.divert(d, d.diversion)
		return false
	}
	if due := d.due(); !due.IsZero() {
		if wait := time.Until(due); wait > 0 {
			p.delay(d, wait)
			return false
		}
	}
	return p.joinKeyQueue(d)
}

// joinKeyQueue puts a job into its key queue, and tells whether it may go. Where the queue is closed the job is dropped: its offset
// stays open.
func (p *Partition) joinKeyQueue(d *Delivery) bool {
	mayGo, previous := p.keyQueues.Join(d)
	if previous != nil {
		d.noteStep("waits behind another job of its key", slog.Int64("previous", previous.Job.Offset))
	}
	return mayGo
}

// drop drops the jobs that were not handed out, but for the diverted: the settler may have
// some of them. It moves fetched back: otherwise the tracker would take the dropped offsets
// for a gap, and so for complete.
func (p *Partition) drop() {
	for d := p.open.Oldest(); d != nil; d = d.newer {
		d.goes()
	}
	for d := p.buffer.Head(); d != nil; d = d.next {
		d.goes()
	}
	p.fetched = p.tracker.End()
	p.buffer, p.freed, p.woken, p.returning = list{}, list{}, list{}, list{}
	p.open = openJobs{}
	p.keyQueues, p.asleep, p.ready = keyQueues{}, linked.Volume{}, linked.Volume{}
	clear(p.deferred)
}
