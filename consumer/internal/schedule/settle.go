package schedule

import (
	"log/slog"
	"time"

	"dispatcher/consumer/deadletter"
)

// This file has all ways out of a delivery.
//
//	a worker says Done      offset complete
//	            Release     offset stays open, key closed; another node gets the job, or this one later
//	            Dead        a dead letter is written, then the offset is complete
//	            RetryLater  a record of a retry topic is written, then the offset is complete
//	            Sleep       the job waits in memory
//	            Requeue     the job is ready again
//	the scheduler rejects   as Dead or RetryLater, written by [Scheduler.Rejected]'s caller
//	a worker takes too long as rejected; the worker's answer then only frees its place
//
// A write that is given up, since the assignment ends, leaves the offset open.

// Done settles the job: its offset counts as complete, once Kafka has its result where
// results are written. It does not block. If the result is not written when the drain ends,
// the job is released.
func (d *Delivery) Done(o Outcome) {
	d.Step("settled", slog.String("result", "done"))
	d.part.sched.settler.Done(d, o)
}

// Release gives the job back unsent: its offset stays open, and another node, or this one
// later, gets it again. Until then no later job of its key (in partition order: of its
// partition) is handed out on this node, since it would overtake.
func (d *Delivery) Release() {
	d.Step("released unsent")
	d.part.sched.Answer(d, false)
}

// Dead writes the job's result, where results are written, then its dead letter and, once
// Kafka has acknowledged that, settles it. It blocks, and Kafka's client tries again, until that is done or Context
// ends; then the job is released. A record that may have been written when Context ends is
// awaited as long as the drain lasts, as a call in flight is. After that the job stays open.
func (d *Delivery) Dead(f deadletter.Failure, o Outcome) {
	d.Step("goes to the dead letters", slog.String("class", string(f.Class)), slog.String("code", f.Code), slog.String("error", f.Message))
	if s := d.part.sched; s.Claim(d) {
		s.settler.Dead(d, f, o)
	}
}

// RetryLater writes the job to the retry topic of the longest delay that is over by then
// and, once Kafka has acknowledged it, settles it. It blocks as [Delivery.Dead] does. The
// job comes back at that time, with its calls and failures as its [Delivery.Attempts]. It
// returns false, and has done nothing, where the job is to wait in place: in any order but
// none, without a retry topic that is short enough, and where the job is too large for it.
func (d *Delivery) RetryLater(at time.Time, f deadletter.Failure) bool {
	s := d.part.sched
	delay := delayFor(s.opts.RetryTopics, time.Until(at)+delaySlack)
	if s.opts.Order != OrderNone || delay == 0 {
		return false
	}
	if !s.Claim(d) {
		return true
	}
	d.Step("goes to a retry topic", slog.Duration("delay", delay), slog.Time("until", at), slog.String("class", string(f.Class)))
	if s.settler.RetryLater(d, delay, at, f) {
		return true
	}
	s.unclaim(d)
	return false
}

// Answered tells that the outcome of the job is known, and that the job will be settled
// once that is written somewhere. From now on the job does not time out.
func (d *Delivery) Answered() { d.part.sched.Claim(d) }

// Claim notes that a worker decided something that has to be written before the job is
// settled. false: it comes too late.
func (s *Scheduler) Claim(d *Delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := d.on(claim); ok {
		delete(s.taken, d)
		return true
	}
	s.lateAnswer(d)
	return false
}

func (s *Scheduler) unclaim(d *Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := d.on(unclaim); ok && s.opts.JobTimeout > 0 {
		s.taken[d] = time.Now()
	}
}

// Answer carries out what a worker says last of a job. done completes its offset.
func (s *Scheduler) Answer(d *Delivery, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer(d, done)
}

func (s *Scheduler) answer(d *Delivery, done bool) {
	if !d.state.mayAnswer() {
		s.lateAnswer(d)
		return
	}
	d.on(answer)
	s.workerLeaves(d)
	s.close(d, done)
}

// lateAnswer frees the place of a worker whose job timed out. It has no effect otherwise.
func (s *Scheduler) lateAnswer(d *Delivery) {
	if d.state != timedOut && d.state != abandoned {
		return
	}
	d.on(answer)
	s.workerLeaves(d)
	s.fill(d.part.src.Lane)
}

// Recorded carries out the outcome of a job's record: done completes the job's offset.
func (s *Scheduler) Recorded(d *Delivery, done bool) {
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
	s.close(d, done)
}

// close completes an offset or leaves it open, and lets others go on. After the end of the
// assignment only they do.
func (s *Scheduler) close(d *Delivery, done bool) {
	p := d.part
	if !p.asg.closed {
		p.settle(d, done)
	}
	if done {
		p.src.Lane.settled.tick(time.Now())
	}
	p.src.Lane.enlist(p)
	s.fill(p.src.Lane)
	p.wakeFetcher()
}

func (p *Partition) settle(d *Delivery, done bool) {
	if done {
		p.unlink(d)
		p.tracker.Complete(d.Job.Offset)
		if p.buffer.head == nil {
			p.tracker.SkipTo(p.fetched)
		}
	}
	if d.rejection != nil {
		p.parked -= d.size
	}
	p.leaveKey(d, done)
}

// workerLeaves notes that no worker has the job any more.
func (s *Scheduler) workerLeaves(d *Delivery) {
	delete(s.taken, d)
	d.part.src.Lane.inFlight--
	d.part.taken--
	d.part.asg.leaves()
}

// Rejected takes what has been rejected since it was last asked, to be written. At the end
// of the assignment the rest is left to the drain, which drops it.
func (s *Scheduler) Rejected(a *Assignment) []*Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.ctx.Err() != nil {
		return nil
	}
	some := a.rejected
	a.rejected = nil
	return some
}
