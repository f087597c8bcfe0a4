package settle

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/produce"
	"dispatcher/consumer/internal/schedule"
	"dispatcher/consumer/internal/topicname"
)

// transfer is a job that goes to the dead letters or to a retry topic: a worker decided so,
// or the scheduler diverted it.
type transfer struct {
	d       *schedule.Delivery
	failure deadletter.Failure // without a class: nothing has failed, the job is due later
	delay   time.Duration      // of the retry topic; 0: to the dead letters
	due     time.Time          // in a retry topic
}

// delayed tells whether the job goes to a retry topic.
func (t *transfer) delayed() bool { return t.delay > 0 }

// topic is where a job goes.
func (s *Settler) topic(t *transfer) string {
	of := schedule.SourceOf(t.d).JobTopic
	switch {
	case t.delayed():
		return topicname.Retry(of, t.delay)
	case t.failure.Class == deadletter.ClassUnknown && s.o.ParkUnknown:
		return topicname.Parked(of)
	}
	return topicname.Dead(of)
}

func (s *Settler) record(t *transfer, now time.Time) *kgo.Record {
	n := &deadletter.Note{Topic: s.topic(t), Group: s.o.Group, Node: s.o.Node, Failure: t.failure}
	if t.delayed() {
		n.Due = t.due
	}
	return deadletter.Compose(&t.d.Job.Record, n, now)
}

// outcome is what became of a job's record.
type outcome int

const (
	settled  outcome = iota // Kafka has it, or it was given up; the job is settled or released
	tooLarge                // for its retry topic; the job is not settled
)

// write writes the record of a worker's job as put does. It returns when the record has an
// outcome, and at the latest when the assignment is over: no outcome counts then.
func (s *Settler) write(t transfer) outcome {
	got := make(chan outcome, 1) // room for it, since done must not block
	s.put(schedule.LifetimeOf(t.d).Writes(), t, func(o outcome) { got <- o })
	select {
	case o := <-got:
		return o
	case <-schedule.LifetimeOf(t.d).Over().Done():
		return settled
	}
}

// put gives a job's record to the writer, and settles the job once Kafka has it. It does not
// block; done must not either.
func (s *Settler) put(ctx context.Context, t transfer, done func(outcome)) {
	s.putAgain(t, &produce.Request{Record: s.record(&t, time.Now()), Context: ctx}, done)
}

// putAgain truncates a dead letter that Kafka refuses for its size, until nothing is left to
// truncate.
func (s *Settler) putAgain(t transfer, r *produce.Request, done func(outcome)) {
	r.Done = func(err error) {
		switch {
		case broker.TooLarge(err) && t.delayed():
			done(tooLarge)
			return
		case broker.TooLarge(err):
			s.putAgain(t, &produce.Request{Record: r.Record, Context: r.Context, Smallest: !deadletter.Truncate(r.Record)}, done)
			return
		case err == nil:
			s.metrics.count(&t)
			s.log(&t)
		}
		schedule.EndRecord(t.d, err == nil)
		done(settled)
	}
	s.putRecord(t.d, r)
}

// putRecord gives the writer a record of a job.
func (s *Settler) putRecord(d *schedule.Delivery, r *produce.Request) {
	writing := schedule.LifetimeOf(d).Writing()
	done := r.Done
	r.Done = func(err error) {
		done(err)
		writing.Add(-1)
	}
	writing.Add(1)
	s.writer.Put(r)
}
