package settle

import (
	"context"
	"fmt"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/batches"
	"dispatcher/consumer/internal/diversion"
	"dispatcher/consumer/internal/schedule"
)

// RunDiverted writes the jobs of an assignment that the scheduler diverts, until the
// assignment ends. It waits for no record: a topic that can't be written holds up no job that
// goes to another.
func (s *Settler) RunDiverted(a *schedule.Assignment) {
	for {
		select {
		case <-a.HasDiverted():
		case <-a.Context().Done():
			return
		}
		for some := a.Diverted(); len(some) > 0; some = a.Diverted() {
			for _, d := range some {
				to := schedule.DiversionOf(d)
				s.divert(a.Context(), transfer{d: d, failure: to.Failure, delay: to.Delay, due: to.Due})
			}
		}
	}
}

// divert writes a job's result, if there is to be one, and then its record. It does not block.
// A job whose result is known not to be written when ctx ends is released: no worker has it, so
// the drain need not wait for it.
func (s *Settler) divert(ctx context.Context, t transfer) {
	if !s.needsResult(&t) {
		s.putDiverted(ctx, t)
		return
	}
	f := &t.failure
	s.putResult(ctx, t.d, schedule.Outcome{Attempts: f.Calls, Error: f.Message}, f.Class, func(written bool) {
		if written {
			s.putDiverted(ctx, t)
		} else {
			schedule.EndRecord(t.d, false)
		}
	})
}

func (s *Settler) putDiverted(ctx context.Context, t transfer) {
	s.put(ctx, t, func(o outcome) {
		if o == tooLarge {
			s.placeTooLarge(ctx, t)
		}
	})
}

// placeTooLarge finds a place for a job that is too large for its retry topic. One that only
// waits for its time does so in memory, where that is not too long, as without retry topics.
// Another goes to the dead letters.
func (s *Settler) placeTooLarge(ctx context.Context, t transfer) {
	s.logTooLarge(&t)
	if t.failure.Class == "" && time.Until(t.due) <= diversion.MaxUntilDue {
		schedule.SleepInstead(t.d)
		return
	}
	if t.failure.Class == "" {
		t.failure.Class = deadletter.ClassUnsupported
		t.failure.Message = fmt.Sprintf("not-before: is more than %v ahead, and with its headers the job is larger than %s takes", diversion.MaxUntilDue, s.topic(&t))
	}
	t.delay = 0
	s.divert(ctx, t)
}

// needsResult tells whether a job's result has to be written first. A record that could not
// be read has no id, and so no result; a job that is only delayed has none yet.
func (s *Settler) needsResult(t *transfer) bool {
	return s.results != nil && t.d.Job.ID != "" && !t.delayed()
}

// logTooLarge warns of a job that is too large for its retry topic.
func (s *Settler) logTooLarge(t *transfer) {
	j := &t.d.Job
	s.o.Log.Warn("a job with its headers is larger than its retry topic takes and does not go there; raise the topic's max.message.bytes",
		"topic", s.topic(t), "from", j.Topic, "partition", j.Partition, "offset", j.Offset, "bytes", batches.RecordBytes(&j.Record))
}
