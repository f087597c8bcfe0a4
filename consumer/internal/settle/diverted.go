package settle

import (
	"context"
	"fmt"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/diversion"
	"dispatcher/consumer/internal/schedule"
)

// RunDiverted writes the jobs of an assignment that the scheduler diverts, until the
// assignment ends.
func (s *Settler) RunDiverted(a *schedule.Assignment) {
	for {
		select {
		case <-a.HasDiverted():
		case <-a.Context().Done():
			return
		}
		for some := a.Diverted(); len(some) > 0; some = a.Diverted() {
			all := make([]transfer, len(some))
			for i, d := range some {
				to := schedule.DiversionOf(d)
				all[i] = transfer{d: d, failure: to.Failure, delay: to.Delay, due: to.Due}
			}
			s.writeDiverted(a, all)
		}
	}
}

// writeDiverted writes first the jobs that have no result, so that they do not wait for
// results; then the results of the others, and last these.
func (s *Settler) writeDiverted(a *schedule.Assignment, all []transfer) {
	var atOnce, withResult []transfer
	for _, t := range all {
		if s.needsResult(&t) {
			withResult = append(withResult, t)
		} else {
			atOnce = append(atOnce, t)
		}
	}
	if len(atOnce) > 0 {
		s.placeTooLarge(a, s.write(a.Context(), atOnce))
	}
	if withResult = s.writeResults(a.Context(), withResult); len(withResult) > 0 {
		s.write(a.Context(), withResult)
	}
}

// placeTooLarge finds a place for jobs that are too large for their retry topic. A job that
// only waits for its time does so in memory, where that is not too long, as without retry
// topics. The others go to the dead letters.
func (s *Settler) placeTooLarge(a *schedule.Assignment, tooLarge []transfer) {
	var dead []transfer
	for _, t := range tooLarge {
		s.logTooLarge(&t)
		if t.failure.Class == "" && time.Until(t.due) <= diversion.MaxUntilDue {
			schedule.SleepInstead(t.d)
			continue
		}
		if t.failure.Class == "" {
			t.failure.Class = deadletter.ClassUnsupported
			t.failure.Message = fmt.Sprintf("not-before: is more than %v ahead, and with its headers the job is larger than %s takes", diversion.MaxUntilDue, s.topic(&t))
		}
		t.delay = 0
		dead = append(dead, t)
	}
	if len(dead) > 0 {
		s.writeDiverted(a, dead)
	}
}

// needsResult tells whether a job's result has to be written first. A record that could not
// be read has no id, and so no result; a job that is only delayed has none yet.
func (s *Settler) needsResult(t *transfer) bool {
	return s.results != nil && t.d.Job.ID != "" && !t.delayed()
}

// writeResults writes the results of diverted jobs, all at once, and returns the jobs whose
// result is written. It releases jobs whose results are known not to be written when ctx
// ends: no worker has them, so the drain need not wait for them.
func (s *Settler) writeResults(ctx context.Context, all []transfer) (written []transfer) {
	outcomes := make([]chan bool, len(all))
	for i := range all {
		f := &all[i].failure
		outcomes[i] = make(chan bool, 1)
		s.putResult(ctx, all[i].d, schedule.Outcome{Attempts: f.Calls, Error: f.Message}, f.Class, func(yes bool) { outcomes[i] <- yes })
	}
	for i, outcome := range outcomes {
		if d := all[i].d; await(d, outcome) {
			written = append(written, all[i])
		} else {
			schedule.EndRecord(d, false)
		}
	}
	return written
}

// await is false as well once the assignment is over.
func await(d *schedule.Delivery, written <-chan bool) bool {
	select {
	case yes := <-written:
		return yes
	case <-schedule.LifetimeOf(d).Over().Done():
		return false
	}
}

// logTooLarge warns of a job that is too large for its retry topic.
func (s *Settler) logTooLarge(t *transfer) {
	j := &t.d.Job
	s.o.Log.Warn("a job with its headers is larger than its retry topic takes and does not go there; raise the topic's max.message.bytes",
		"topic", s.topic(t), "from", j.Topic, "partition", j.Partition, "offset", j.Offset, "bytes", broker.RecordBytes(&j.Record))
}
