package schedule

import (
	"log/slog"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer/internal/diversion"
	"dispatcher/consumer/internal/order"
	"dispatcher/consumer/internal/states"
)

// This file has all ways in which a job leaves its worker for good. Sleep and Requeue, after
// which the job comes again, are in sleep.go; the diverted jobs are in divert.go.
//
//	            the job                                                        the worker
//	Done        the result is written, where results are; then the offset is   is free at once; the job stays in
//	            complete                                                       flight until the result is written
//	Dead        the result and a dead letter are written; then likewise        waits until Kafka has both
//	RetryLater  a record of a retry topic is written; then likewise            waits until Kafka has it
//	Release     the offset stays open, the key is closed; another node gets    is free at once
//	            the job, or this one later
//
// The end of the assignment gives up a write; the offset stays open then. After a timeout
// whatever the worker calls only frees its place.

// Done settles the job: its offset counts as complete, once Kafka has its result where
// results are written. It does not block. If the result is not written when the drain ends,
// the job is released.
func (d *Delivery) Done(o Outcome) {
	d.part.sched.opts.Settler.Done(d, o)
}

// Release gives the job back unsent: its offset stays open, and another node, or this one
// later, gets it again. Until then no later job of its key (in partition order: of its
// partition) is handed out on this node, since it would overtake.
func (d *Delivery) Release() {
	d.Step("released unsent")
	endUnwritten(d, false)
}

// Dead writes the job's result, where results are written, then its dead letter. Once Kafka
// has acknowledged that, it settles the job. It keeps the worker, and tries again, until that
// is done or given up during the drain; then the job is released. A record that may have been
// written is awaited as long as the drain lasts, as a call in flight is.
func (d *Delivery) Dead(f deadletter.Failure, o Outcome) {
	d.Step("goes to the dead letters", slog.String("class", string(f.Class)), slog.String("code", f.Code), slog.String("error", f.Message))
	if BeginRecord(d) {
		d.part.sched.opts.Settler.Dead(d, f, o)
	}
}

// RetryLater writes the job to the retry topic of the longest delay that is over by then
// and, once Kafka has acknowledged it, settles it. It keeps the worker until then, or until
// the write is given up during the drain. The job comes back at that time, with its calls and
// failures as its [Delivery.Attempts]. It returns false, and has done nothing, where the job
// is to wait in place: with order key or partition, without a retry topic that is short
// enough, or if the job is too large for it.
func (d *Delivery) RetryLater(at time.Time, f deadletter.Failure) bool {
	s := d.part.sched
	delay := diversion.DelayOf(s.opts.RetryTopics, time.Until(at))
	if s.keys.Order() != order.None || delay == 0 {
		return false
	}
	if !BeginRecord(d) {
		return true
	}
	d.Step("goes to a retry topic", slog.Duration("delay", delay), slog.Time("until", at), slog.String("class", string(f.Class)))
	if s.opts.Settler.RetryLater(d, delay, at, f) {
		return true
	}
	s.abortRecord(d)
	return false
}

// Answered notes that a call of the job was answered, and that the worker writes that
// somewhere before it settles the job. From now on the job does not time out.
func (d *Delivery) Answered() { BeginRecord(d) }

// BeginRecord notes that a record is being written for a job that a worker has, and that the
// job is settled after that. Until then it keeps its key and its place in flight, and does
// not time out. false: the job has timed out or is settled, and its worker is free.
func BeginRecord(d *Delivery) bool {
	s := d.part.sched
	s.mu.Lock()
	defer s.unlock()
	if _, ok := d.on(states.BeginRecord); ok {
		delete(s.taken, d)
		return true
	}
	s.letGo(d, false)
	return false
}

// abortRecord notes that the record can't be written. The worker has the job as before.
func (s *Scheduler) abortRecord(d *Delivery) {
	s.mu.Lock()
	defer s.unlock()
	if _, ok := d.on(states.AbortRecord); ok && s.opts.JobTimeout > 0 {
		s.taken[d] = time.Now()
	}
}

// Settle ends a delivery without a record in Kafka: its offset is complete. If the job has
// timed out, it only frees the worker's place.
func Settle(d *Delivery) { endUnwritten(d, true) }

func endUnwritten(d *Delivery, settled bool) {
	s := d.part.sched
	s.mu.Lock()
	defer s.unlock()
	s.letGo(d, settled)
}

// letGo ends a delivery whose worker lets it go without a record: the job is settled, or it is
// released.
func (s *Scheduler) letGo(d *Delivery, settled bool) {
	before, ok := d.on(states.LetGo)
	if !ok {
		return
	}
	s.workerLeaves(d)
	if before == states.Abandoned {
		d.part.abandoned--
	}
	if before.Late() {
		s.fill(d.part.src.Lane)
		return
	}
	s.conclude(d, settled)
}

// EndRecord ends a delivery whose last record has an outcome. written: Kafka has the record,
// and the job is settled. Otherwise it is released.
func EndRecord(d *Delivery, written bool) {
	s := d.part.sched
	s.mu.Lock()
	defer s.unlock()
	before, ok := d.on(states.EndRecord)
	switch {
	case !ok:
		return
	case before == states.Writing:
		s.workerLeaves(d)
	case before == states.TimedOut:
		d.part.abandoned++
		fallthrough
	default:
		d.part.asg.leaves()
	}
	s.conclude(d, written)
}

// conclude completes an offset or leaves it open, and lets other jobs go on. After the
// assignment is closed it only lets other jobs go on.
func (s *Scheduler) conclude(d *Delivery, settled bool) {
	p := d.part
	if p.asg.phase != closed {
		p.end(d, settled)
	}
	if settled {
		p.src.Lane.completed.Count()
	}
	p.src.Lane.enlist(p)
	s.fill(p.src.Lane)
	p.wakeFetcher()
}

// end completes the offset of a job that is settled. That of a job that is released stays open.
func (p *Partition) end(d *Delivery, settled bool) {
	if settled {
		d.noteStep("settled", slog.Attr{})
		p.open.Remove(d)
		p.tracker.Complete(d.Job.Offset)
		if p.buffer.Head() == nil {
			p.tracker.SkipTo(p.fetched)
		}
	}
	if d.diversion != nil {
		p.diverted.Minus(d.bytes())
	}
	if next := p.keyQueues.Leave(d, settled); next != nil {
		p.freed.Push(next)
	}
}

// workerLeaves notes that no worker has the job any more.
func (s *Scheduler) workerLeaves(d *Delivery) {
	delete(s.taken, d)
	l := d.part.src.Lane
	had := l.takeable()
	l.inFlight--
	s.noticeOf(l, had)
	d.part.inFlight--
	d.part.asg.leaves()
}
