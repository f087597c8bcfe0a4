package schedule

import (
	"time"

	"dispatcher/consumer/internal/diversion"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/order"
)

// This file has the fetcher's side: the batches that it brings, and what it may fetch.

// minShareBytes of a node's bytes are each partition's, however many there are.
const minShareBytes = 16 << 10

// refusedBytes is about what a record takes in memory, beside its job, while Kafka refuses it again and again.
const refusedBytes = 8 << 10

// Batch is the result of one fetch of a partition.
type Batch struct {
	Jobs   []*Delivery // in the order of their offsets; each went through [Prepare]
	Bytes  int
	Next   int64 // where the following fetch begins
	Stable int64 // the log's last stable offset
	Gap    bool  // the log has no job where the fetch began
}

// Prepared is what is known of a fetched job, beside the job itself.
type Prepared struct {
	Size      int       // bytes in memory
	Due       time.Time // not handed out before; zero: at once
	LookAt    time.Time // of a retry topic's record: not looked at before
	Attempts  offsets.Attempts
	Tenant    string               // in a fair lane
	Diversion *diversion.Diversion // nil: a worker may have it
}

// Prepare sets up a delivery that was fetched, whose Job is there already.
func Prepare(d *Delivery, p *Partition, about Prepared) {
	d.part, d.tenant, d.size, d.attempts, d.diversion = p, about.Tenant, int32(about.Size), about.Attempts, about.Diversion
	d.keyQueue = order.NewPlace[Delivery](p.sched.keys.Of(d.Job.Key, p.src.Delay > 0))
	if !about.Due.IsZero() || !about.LookAt.IsZero() {
		d.wait = &wait{due: about.Due, lookAt: about.LookAt}
	}
}

// Add takes a batch into the buffer. It returns whether there is room for more.
func (p *Partition) Add(b *Batch) bool {
	s := p.sched
	s.logFetched(b.Jobs)
	s.mu.Lock()
	defer s.unlock()
	if p.asg.phase != working {
		return false
	}
	if b.Gap && p.fetched == p.begin { // later ones are markers and aborted records, or were deleted
		p.tracker.DropRestored()
	}
	for _, d := range b.Jobs {
		p.buffer.Push(d)
		d.comes()
	}
	p.fetched, p.stable = b.Next, b.Stable
	if p.buffer.Head() == nil {
		p.tracker.SkipTo(p.fetched)
	}
	p.src.Lane.enlist(p)
	s.fill(p.src.Lane)
	p.fullBuffer = !p.room()
	return !p.fullBuffer
}

// Roomy takes the partitions of the assignment that have room again.
func (a *Assignment) Roomy() []*Partition {
	a.sched.mu.Lock()
	defer a.sched.unlock()
	some := a.roomy
	a.roomy = nil
	return some
}

// OverBudget tells whether the node's partitions hold all bytes that they may. Then it
// flags those of the assignment that hold their share; see [Partition.OverShare].
func (a *Assignment) OverBudget() bool {
	s := a.sched
	s.mu.Lock()
	defer s.unlock()
	all, parts := 0, 0
	for live := range s.live {
		for _, p := range live.parts {
			all += p.held()
		}
		parts += len(live.parts)
	}
	over := all >= s.opts.BufferBytes
	share := max(s.opts.BufferBytes/max(parts, 1), minShareBytes)
	for _, p := range a.parts {
		p.overShare = over && p.held() >= share
	}
	return over
}

// OverShare tells whether the partition must not be fetched, as of the last
// [Assignment.OverBudget]. It belongs to the goroutine that calls that.
func (p *Partition) OverShare() bool { return p.overShare }

// held is how many bytes its buffer, the jobs that have slept and those of heldBack take. Those in flight are few, and so are those
// that are ready in a lane that is not fair.
func (p *Partition) held() int {
	return p.buffer.Volume().Bytes + p.woken.Volume().Bytes + p.returning.Volume().Bytes + p.heldBack()
}

// heldBack is how many of them are those of admitted jobs that wait behind their key, have
// just got it, are diverted and not written, or in a fair lane are ready or sleep. Other lanes'
// jobs that sleep are bounded over the node, and do not count here: the jobs behind them are
// to pass them.
func (p *Partition) heldBack() int {
	n := p.freed.Volume().Bytes + p.keyQueues.Waiting().Bytes + p.diverted.Bytes + p.diverted.Items*refusedBytes + p.ready.Bytes
	if p.src.Lane.fair {
		n += p.asleep.Bytes
	}
	return n
}

// room tells whether fetching may go on.
func (p *Partition) room() bool {
	return p.buffer.Volume().Items < bufferJobs && p.buffer.Volume().Bytes < bufferBytes && p.heldBack() < heldBackBytes &&
		p.tracker.Span() < offsets.PauseWindow && !p.sleepersFull()
}

// wakeFetcher tells the fetcher that there is room again.
func (p *Partition) wakeFetcher() {
	if !p.fullBuffer || !p.room() {
		return
	}
	p.fullBuffer = false
	p.asg.roomy = append(p.asg.roomy, p)
	p.asg.WakeFetcher()
}
