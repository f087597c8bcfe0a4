package settle

import (
	"context"
	"fmt"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/schedule"
)

// RunRejected writes what the scheduler rejects of an assignment, until the assignment
// ends.
func (s *Settler) RunRejected(a *schedule.Assignment) {
	for {
		select {
		case <-a.HasRejected():
		case <-a.Context().Done():
			return
		}
		for some := s.o.Scheduler.Rejected(a); len(some) > 0; some = s.o.Scheduler.Rejected(a) {
			letters := make([]letter, len(some))
			for i, d := range some {
				letters[i] = letter{d, *schedule.RejectionOf(d)}
			}
			s.writeRejected(a, letters)
		}
	}
}

// writeRejected writes letters, those of jobs that have a result after it: a letter that
// needs no result does not wait for others.
func (s *Settler) writeRejected(a *schedule.Assignment, all []letter) {
	var letters, after []letter
	for _, l := range all {
		if s.needsResult(&l) {
			after = append(after, l)
		} else {
			letters = append(letters, l)
		}
	}
	if len(letters) > 0 {
		s.placeTooLarge(a, s.write(a.Context(), letters))
	}
	if after = s.writeResults(a.Context(), after); len(after) > 0 {
		s.write(a.Context(), after)
	}
}

// placeTooLarge finds a place for jobs that are too large for their retry topic. A job that
// only waits for its time does so in memory, where that is not too long, as without retry
// topics. The others go to the dead letters.
func (s *Settler) placeTooLarge(a *schedule.Assignment, tooLarge []letter) {
	var dead []letter
	for _, l := range tooLarge {
		s.logTooLarge(&l)
		if l.Failure.Class == "" && time.Until(l.Due) <= schedule.MaxRest {
			s.o.Scheduler.RestInstead(l.d)
			continue
		}
		if l.Failure.Class == "" {
			l.Failure.Class = deadletter.ClassUnsupported
			l.Failure.Message = fmt.Sprintf("not-before: is more than %v ahead, and with its headers the job is larger than %s takes", schedule.MaxRest, s.topic(&l))
		}
		l.Delay = 0
		dead = append(dead, l)
	}
	if len(dead) > 0 {
		s.writeRejected(a, dead)
	}
}

// needsResult tells whether a letter ends a job that has a result. A record that could not
// be read has no id, and so no result; a job that is only delayed has none yet.
func (s *Settler) needsResult(l *letter) bool {
	return s.results != nil && l.d.Job.ID != "" && !l.Delayed()
}

// writeResults writes the results of rejected jobs, all at once, and returns those that may
// go on. Jobs whose results are known not to be written when ctx ends are released: no
// worker has them, and the drain is not to be held up for them.
func (s *Settler) writeResults(ctx context.Context, letters []letter) (kept []letter) {
	outcomes := make([]chan bool, len(letters))
	for i := range letters {
		f := &letters[i].Failure
		outcomes[i] = make(chan bool, 1)
		s.putResult(ctx, letters[i].d, schedule.Outcome{Attempts: f.Attempt, Error: f.Message}, f.Class, func(yes bool) { outcomes[i] <- yes })
	}
	for i, written := range outcomes {
		if d := letters[i].d; await(d, written) {
			kept = append(kept, letters[i])
		} else {
			s.o.Scheduler.Recorded(d, false)
		}
	}
	return kept
}

// await is false as well once the assignment is over.
func await(d *schedule.Delivery, written <-chan bool) bool {
	select {
	case yes := <-written:
		return yes
	case <-schedule.AssignmentOf(d).Over().Done():
		return false
	}
}

// logTooLarge warns of a job that waits elsewhere than it should.
func (s *Settler) logTooLarge(l *letter) {
	j := &l.d.Job
	s.o.Log.Warn("a job with its headers is larger than its retry topic takes and does not go there; raise the topic's max.message.bytes",
		"topic", s.topic(l), "from", j.Topic, "partition", j.Partition, "offset", j.Offset, "bytes", broker.RecordBytes(&j.Record))
}
