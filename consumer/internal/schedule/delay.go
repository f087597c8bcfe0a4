package schedule

import (
	"fmt"
	"slices"
	"time"

	"dispatcher/consumer/deadletter"
)

// All records of a retry topic wait equally long. So the order in which they were written
// is the order in which they are due, and only the first has to be looked at.

const (
	// MaxRest is how long a job may wait in memory for its time where there are no retry
	// topics. Meanwhile its offset is open, and the tracker's window ends so many offsets
	// further on.
	MaxRest = time.Minute

	// delaySlack lets a wait that was meant to be as long as a retry topic's be that, though
	// some of it has passed. The job is due at its own time all the same.
	delaySlack = 10 * time.Millisecond
)

// delayFor is the longest delay that is over within a wait; 0: none is.
func delayFor(delays []time.Duration, wait time.Duration) time.Duration {
	for _, delay := range slices.Backward(delays) {
		if delay <= wait {
			return delay
		}
	}
	return 0
}

// delay has a job wait that is not due: in a retry topic, in memory, or not at all.
func (p *Partition) delay(d *Delivery, wait time.Duration) {
	delays := p.sched.opts.RetryTopics
	delay := delayFor(delays, wait)
	switch {
	case delay > 0:
		f := deadletter.Failure{Attempt: d.attempts.Calls, Failures: d.attempts.Failures}
		p.reject(d, &Rejection{Failure: f, Delay: delay, Due: d.times.due})
	case len(delays) > 0 || wait <= MaxRest:
		p.rest(d)
	default:
		p.reject(d, &Rejection{Failure: deadletter.Failure{
			Class: deadletter.ClassUnsupported, Attempt: d.attempts.Calls,
			Message: fmt.Sprintf("not-before: is more than %v ahead; kafka.retry_topics would allow it", MaxRest),
		}})
	}
}

// rest keeps a job in memory until it is due. Its offset is open, and it holds neither its
// key nor its partition.
func (p *Partition) rest(d *Delivery) {
	p.unlink(d)
	p.sleepUntil(timer{at: d.times.due, part: p, d: d})
}

// RestInstead keeps a rejected job in memory until it is due: its retry topic does not take
// it.
func (s *Scheduler) RestInstead(d *Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := d.part
	p.asg.leaves()
	if p.asg.draining {
		return
	}
	p.parked -= d.size
	d.rejection = nil
	p.rest(d)
}
