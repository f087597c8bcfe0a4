package schedule

import (
	"fmt"
	"time"

	"dispatcher/consumer/deadletter"
)

// A job that a worker has for longer than the job timeout holds the committed offset of
// its partition, and its key. So it goes to a retry topic or to the dead letters, and what
// its worker says later only frees the worker's place.

// timeOutLate times out the jobs that were taken too long ago. It returns how soon to look
// again. The lock is held.
func (s *Scheduler) timeOutLate(now time.Time) time.Duration {
	if s.opts.JobTimeout == 0 {
		return time.Hour
	}
	for d, since := range s.taken {
		if now.Sub(since) >= s.opts.JobTimeout && !d.part.asg.draining {
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
	r := &Rejection{Failure: deadletter.Failure{
		Class: deadletter.ClassJobTimeout, Message: fmt.Sprintf("in flight for %v and not settled", s.opts.JobTimeout),
		Attempt: d.attempts.Calls, Failures: d.attempts.Failures,
	}}
	if delays := s.opts.RetryTopics; len(delays) > 0 {
		r.Delay = max(delayFor(delays, s.opts.JobTimeout), delays[0])
		r.Due = now.Add(r.Delay)
	}
	d.part.queueRejected(d, r)
}
