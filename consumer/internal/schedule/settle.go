package schedule

import (
	"log/slog"
	"time"

	"dispatcher/consumer/deadletter"
)

// This file has all ways in which a job leaves its worker for good. Sleep and Requeue, after
// which the job comes again, are in sleep.go; the jobs that no worker sees are in reject.go.
//
//	Done        the result is written, where results are; then the offset is complete
//	Dead        the result and a dead letter are written, then the offset is complete
//	RetryLater  a record of a retry topic is written, then the offset is complete
//	Release     the offset stays open, the key is closed; another node gets the job, or this one later
//
// The end of the assignment gives up a write; the offset stays open then. After a timeout
// the worker's answer only frees its place.

// Done settles the job: its offset counts as complete, once Kafka has its result where
// results are written. It does not block. If the result is not written when the drain ends,
// the job is released.
func (d *Delivery) Done(o Outcome) {
	d.Step("settled", slog.String("result", "done"))
	d.part.sched.opts.Settler.Done(d, o)
}

// Release gives the job back unsent: its offset stays open, and another node, or this one
// later, gets it again. Until then no later job of its key (in partition order: of its
// partition) is handed out on this node, since it would overtake.
func (d *Delivery) Release() {
	d.Step("released unsent")
	Answer(d, false)
}

// Dead writes the job's result, where results are written, then its dead letter. Once Kafka
// has acknowledged that, it settles the job. It blocks, and tries again, until that is done
// or given up during the drain; then the job is released. A record that may have been
// written is awaited as long as the drain lasts, as a call in flight is.
func (d *Delivery) Dead(f deadletter.Failure, o Outcome) {
	d.Step("goes to the dead letters", slog.String("class", string(f.Class)), slog.String("code", f.Code), slog.String("error", f.Message))
	if Claim(d) {
		d.part.sched.opts.Settler.Dead(d, f, o)
	}
}

// RetryLater writes the job to the retry topic of the longest delay that is over by then
// and, once Kafka has acknowledged it, settles it. It blocks as [Delivery.Dead] does. The
// job comes back at that time, with its calls and failures as its [Delivery.Attempts]. It
// returns false, and has done nothing, where the job is to wait in place: with order key or
// partition, without a retry topic that is short enough, or if the job is too large for it.
func (d *Delivery) RetryLater(at time.Time, f deadletter.Failure) bool {
	s := d.part.sched
	delay := delayFor(s.opts.RetryTopics, time.Until(at)+delaySlack)
	if s.opts.Order != OrderNone || delay == 0 {
		return false
	}
	if !Claim(d) {
		return true
	}
	d.Step("goes to a retry topic", slog.Duration("delay", delay), slog.Time("until", at), slog.String("class", string(f.Class)))
	if s.opts.Settler.RetryLater(d, delay, at, f) {
		return true
	}
	s.unclaim(d)
	return false
}

// Answered notes that the provider has answered, and that the job will be settled once that
// is written somewhere. From now on the job does not time out.
func (d *Delivery) Answered() { Claim(d) }

// Claim notes that a worker decided something that has to be written before the job is
// settled. false: the job has timed out or is settled.
func Claim(d *Delivery) bool {
	s := d.part.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := d.on(claim); ok {
		delete(s.taken, d)
		return true
	}
	s.answer(d, false)
	return false
}

func (s *Scheduler) unclaim(d *Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := d.on(unclaim); ok && s.opts.JobTimeout > 0 {
		s.taken[d] = time.Now()
	}
}

// Answer takes a job from its worker; done completes its offset. If the job has timed out,
// it only frees the worker's place.
func Answer(d *Delivery, done bool) {
	s := d.part.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer(d, done)
}

func (s *Scheduler) answer(d *Delivery, done bool) {
	before, ok := d.on(answer)
	if !ok {
		return
	}
	s.workerLeaves(d)
	if before.late() {
		s.fill(d.part.src.Lane)
		return
	}
	s.conclude(d, done)
}

// Recorded carries out the outcome of a job's record: done completes the job's offset.
func Recorded(d *Delivery, done bool) {
	s := d.part.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := d.on(recorded)
	switch {
	case !ok:
		return
	case before == writing:
		s.workerLeaves(d)
	default:
		d.part.asg.leaves()
	}
	s.conclude(d, done)
}

// conclude completes an offset or leaves it open, and lets other jobs go on. After the
// assignment is closed it only does the latter.
func (s *Scheduler) conclude(d *Delivery, done bool) {
	p := d.part
	if p.asg.phase != closed {
		p.settle(d, done)
	}
	if done {
		p.src.Lane.completed.tick(time.Now())
	}
	p.src.Lane.enlist(p)
	s.fill(p.src.Lane)
	p.wakeFetcher()
}

func (p *Partition) settle(d *Delivery, done bool) {
	if done {
		p.open.remove(d)
		p.tracker.Complete(d.Job.Offset)
		if p.buffer.head == nil {
			p.tracker.SkipTo(p.fetched)
		}
	}
	if d.rejection != nil {
		p.rejected.minus(d)
	}
	p.leaveKey(d, done)
}

// workerLeaves notes that no worker has the job any more.
func (s *Scheduler) workerLeaves(d *Delivery) {
	delete(s.taken, d)
	d.part.src.Lane.inFlight--
	d.part.inFlight--
	d.part.asg.leaves()
}
