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

// write writes the records of one assignment's jobs, and settles each job once Kafka has its
// record. It returns when all records have an outcome, and at the latest when the assignment
// is over: no outcome counts then. It returns the jobs that are too large for their retry
// topic, and does not settle them.
func (s *Settler) write(ctx context.Context, all []transfer) (tooLarge []transfer) {
	outcomes := make(chan *transfer, len(all)) // room for all, since Done must not block
	now := time.Now()
	for i := range all {
		s.put(all[i], &produce.Request{Record: s.record(&all[i], now), Context: ctx}, outcomes)
	}
	over := schedule.LifetimeOf(all[0].d).Over()
	for range all {
		select {
		case t := <-outcomes:
			if t != nil {
				tooLarge = append(tooLarge, *t)
			}
		case <-over.Done():
			return nil
		}
	}
	return tooLarge
}

// put gives a job's record to the writer. A dead letter that Kafka refuses for its size is
// truncated until nothing is left to truncate. The outcome is nil for a job that is settled, and
// the transfer for one that does not fit its retry topic.
func (s *Settler) put(t transfer, r *produce.Request, outcomes chan<- *transfer) {
	r.Done = func(err error) {
		switch {
		case broker.TooLarge(err) && t.delayed():
			outcomes <- &t
			return
		case broker.TooLarge(err):
			s.put(t, &produce.Request{Record: r.Record, Context: r.Context, Smallest: !deadletter.Truncate(r.Record)}, outcomes)
			return
		case err == nil:
			s.metrics.count(&t)
			s.log(&t)
		}
		schedule.EndRecord(t.d, err == nil)
		outcomes <- nil
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
