package schedule

import (
	"fmt"
	"slices"
	"time"

	"dispatcher/consumer/deadletter"
)

// A job is diverted when it goes to the dead letters or to a retry topic without a worker's
// decision: it can't be read, expired, is due only later, or was in flight for too long.

const (
	// MaxRest is how long a job may wait in memory for its time where there are no retry
	// topics. Meanwhile its offset is open, and the tracker's window ends so many offsets
	// further on.
	MaxRest = time.Minute

	// delaySlack lets a wait that was meant to be as long as a retry topic's be that, though
	// some of it has passed. The job is due at its own time all the same.
	delaySlack = 10 * time.Millisecond
)

// Diversion says where a diverted job goes, and why.
type Diversion struct {
	Failure deadletter.Failure // without a class: nothing has failed, the job is due later
	Delay   time.Duration      // of the retry topic; 0: to the dead letters
	Due     time.Time          // in a retry topic
}

// DiversionOf is that of a job that [Assignment.Diverted] gave.
func DiversionOf(d *Delivery) *Diversion { return d.diversion }

// Diverted takes the jobs that were diverted since it was last called; its caller writes
// them. When the assignment ends the drain drops the others.
func (a *Assignment) Diverted() []*Delivery {
	a.sched.mu.Lock()
	defer a.sched.unlock()
	if a.Context().Err() != nil {
		return nil
	}
	some := a.diverted
	a.diverted = nil
	return some
}

// HasDiverted gets a notice when [Assignment.Diverted] may have some.
func (a *Assignment) HasDiverted() <-chan struct{} { return a.hasDiverted }

// divert gives a job to the caller of [Assignment.Diverted]. No worker has it; the
// assignment awaits it all the same.
func (p *Partition) divert(d *Delivery, r *Diversion) {
	d.on(divert)
	d.endWait()
	p.queueDiverted(d, r)
}

func (p *Partition) queueDiverted(d *Delivery, r *Diversion) {
	d.diversion = r
	p.diverted.plus(d)
	p.asg.awaited++
	p.asg.diverted = append(p.asg.diverted, d)
	notify(p.asg.hasDiverted)
}

// RestInstead keeps a diverted job in memory until it is due: its retry topic does not take
// it.
func RestInstead(d *Delivery) {
	p := d.part
	p.sched.mu.Lock()
	defer p.sched.unlock()
	p.asg.leaves()
	p.diverted.minus(d)
	if p.asg.phase != working {
		return
	}
	d.diversion = nil
	p.rest(d)
}

// expiry is the diversion of a job whose not-after has passed.
func (d *Delivery) expiry() *Diversion {
	return &Diversion{Failure: deadletter.Failure{Class: deadletter.ClassExpired, Calls: d.attempts.Calls}}
}

// delayFor is the longest delay that is over within a wait; 0: none is.
func delayFor(delays []time.Duration, wait time.Duration) time.Duration {
	for _, delay := range slices.Backward(delays) {
		if delay <= wait {
			return delay
		}
	}
	return 0
}

// delay has a job wait that is not due: in a retry topic or in memory. A job that can wait
// in neither goes to the dead letters.
func (p *Partition) delay(d *Delivery, wait time.Duration) {
	delays := p.sched.opts.RetryTopics
	delay := delayFor(delays, wait)
	switch {
	case delay > 0:
		f := deadletter.Failure{Calls: d.attempts.Calls, Failures: d.attempts.Failures}
		p.divert(d, &Diversion{Failure: f, Delay: delay, Due: d.times.due})
	case len(delays) > 0 || wait <= MaxRest:
		p.rest(d)
	default:
		p.divert(d, &Diversion{Failure: deadletter.Failure{
			Class: deadletter.ClassUnsupported, Calls: d.attempts.Calls,
			Message: fmt.Sprintf("not-before: is more than %v ahead; kafka.retry_topics would allow it", MaxRest),
		}})
	}
}

// timeOutLate times out the jobs that were taken too long ago: such a job holds the
// committed offset of its partition, and its key. It returns how soon to check again. The
// lock is held.
func (s *Scheduler) timeOutLate(now time.Time) time.Duration {
	if s.opts.JobTimeout == 0 {
		return time.Hour
	}
	for d, since := range s.taken {
		if now.Sub(since) >= s.opts.JobTimeout && d.part.asg.phase == working {
			s.timeOut(d, now)
		}
	}
	return max(s.opts.JobTimeout/16, 10*time.Millisecond)
}

func (s *Scheduler) timeOut(d *Delivery, now time.Time) {
	delete(s.taken, d)
	if _, ok := d.on(timeOut); !ok {
		return
	}
	r := &Diversion{Failure: deadletter.Failure{
		Class: deadletter.ClassJobTimeout, Message: fmt.Sprintf("in flight for %v and not settled", s.opts.JobTimeout),
		Calls: d.attempts.Calls, Failures: d.attempts.Failures,
	}}
	if delays := s.opts.RetryTopics; len(delays) > 0 {
		r.Delay = max(delayFor(delays, s.opts.JobTimeout), delays[0])
		r.Due = now.Add(r.Delay)
	}
	d.part.queueDiverted(d, r)
}
