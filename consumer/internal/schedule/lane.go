package schedule

import (
	"dispatcher/consumer/internal/backlog"
	"dispatcher/consumer/internal/linked"
	"dispatcher/consumer/internal/turns"

	"golang.org/x/sys/cpu"
)

// Lane is a set of topics that share a priority, a limit of jobs in flight and a queue
// of jobs that are ready. The scheduler's lock guards it.
type Lane struct {
	name     string
	mostJobs int  // jobs in flight and, where the lane is not fair, ready, at most
	fair     bool // all fetched jobs that may go are ready, so that tenants take turns over all of them

	_ cpu.CacheLinePad // each hand-out writes what is below, and would delay fetchers, which read what is above for each record

	inFlight  int // handed out; not settled, or a worker still has them
	ready     turns.Queue[*Delivery]
	completed backlog.Rate // offsets
	backlog   backlog.Counter

	parts linked.List[Partition, inLane] // those that may have a job to make ready
}

// NewLane makes a lane of so many jobs ready and in flight.
func NewLane(name string, mostJobs int) *Lane { return &Lane{name: name, mostJobs: mostJobs} }

// NewFairLane makes a lane whose tenants take turns, with so many jobs in flight.
func NewFairLane(name string, mostJobs int) *Lane {
	return &Lane{name: name, mostJobs: mostJobs, fair: true}
}

// Name is what the lane is called.
func (l *Lane) Name() string { return l.name }

// put makes a job of the lane ready, behind those of its tenant; in a fair lane a job that is not fresh takes turns with the
// tenant's fresh ones. fresh: it came out of a buffer. A caller that waits for jobs of other lanes gets a notice where this one had
// none to take.
func (s *Scheduler) put(l *Lane, d *Delivery, fresh bool) {
	had := l.takeable()
	l.ready.Push(d.tenant, d, d.turns(), fresh || !l.fair)
	s.isReady(l, d, had)
}

// putFront makes a job ready in front of all others: it was taken, and is put back.
func (s *Scheduler) putFront(l *Lane, d *Delivery) {
	had := l.takeable()
	l.ready.PutBack(d)
	s.isReady(l, d, had)
}

func (s *Scheduler) isReady(l *Lane, d *Delivery, had int) {
	if l.fair {
		d.part.ready.Plus(d.bytes())
	}
	s.noticeOf(l, had)
}

// noticeOf gives a notice where the lane had no job to take and has one.
func (s *Scheduler) noticeOf(l *Lane, had int) {
	if had == 0 && l.takeable() > 0 && !s.finished {
		notify(s.ready)
	}
}

// pop takes the ready job that goes next. There is one.
func (l *Lane) pop() *Delivery {
	d := l.ready.Pop()
	d.notReady()
	return d
}

// popFresh takes the first ready job that has not failed yet; nil: there is none.
func (l *Lane) popFresh() *Delivery {
	d, ok := l.ready.Take(func(d *Delivery) bool { return !d.failedBefore() && !d.expired() })
	if ok {
		d.notReady()
	}
	return d
}

// turns are how many turns of its tenant the job takes.
func (d *Delivery) turns() int { return max(1, d.Job.Cost) }

// notReady notes that the job was taken out of its lane's queue.
func (d *Delivery) notReady() {
	if d.part.src.Lane.fair {
		d.part.ready.Minus(d.bytes())
		d.part.wakeFetcher()
	}
}

// takeable is how many ready jobs may be taken.
func (l *Lane) takeable() int {
	if l.fair {
		return max(0, min(l.ready.Len(), l.mostJobs-l.inFlight))
	}
	return l.ready.Len()
}

// room tells whether one more job may be made ready. In a fair lane the offset trackers and the bytes of the
// partitions bound how many are.
func (l *Lane) room() bool { return l.fair || l.inFlight+l.ready.Len() < l.mostJobs }

// enlist queues a partition that may have a job to make ready.
func (l *Lane) enlist(p *Partition) {
	if p.listed || p.asg.phase != working || !p.hasSome() {
		return
	}
	p.listed = true
	l.parts.Push(p)
}

func (l *Lane) delist() *Partition {
	p := l.parts.Pop()
	p.listed = false
	return p
}

// inLane says where a partition keeps the next one of its lane's queue.
type inLane struct{}

func (inLane) Next(p *Partition) **Partition { return &p.after }
func (inLane) Bytes(*Partition) int          { return 0 }

// drop takes an assignment's jobs out of the queue.
func (l *Lane) drop(a *Assignment) {
	l.ready.DeleteFunc(func(d *Delivery) bool { return d.part.asg == a })
}
