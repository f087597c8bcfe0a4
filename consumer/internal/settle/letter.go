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

// letter is a job on its way to the dead letters or to a retry topic.
type letter struct {
	d *schedule.Delivery
	schedule.Rejection
}

// topic is where a letter goes.
func (s *Settler) topic(l *letter) string {
	of := schedule.SourceOf(l.d).JobTopic
	switch {
	case l.Delayed():
		return topicname.Retry(of, l.Delay)
	case l.Failure.Class == deadletter.ClassUnknown && s.o.ParkUnknown:
		return topicname.Parked(of)
	}
	return topicname.Dead(of)
}

func (s *Settler) record(l *letter, now time.Time) *kgo.Record {
	n := &deadletter.Note{Topic: s.topic(l), Group: s.o.Group, Node: s.o.Node, Failure: l.Failure}
	if l.Delayed() {
		n.Due = l.Due
	}
	return deadletter.Compose(&l.d.Job.Record, n, now)
}

// write writes letters of one assignment, and settles each once Kafka has it. It returns
// when all have their outcome, and at the latest when the assignment is over: no outcome
// counts then. Letters that their retry topic finds too large are not settled; it returns
// those.
func (s *Settler) write(ctx context.Context, letters []letter) (tooLarge []letter) {
	outcomes := make(chan *letter, len(letters)) // room for all, since Done must not block
	now := time.Now()
	for i := range letters {
		s.put(ctx, letters[i], s.record(&letters[i], now), outcomes)
	}
	over := schedule.AssignmentOf(letters[0].d).Over()
	for range letters {
		select {
		case l := <-outcomes:
			if l != nil {
				tooLarge = append(tooLarge, *l)
			}
		case <-over.Done():
			return nil
		}
	}
	return tooLarge
}

// put hands a letter to the writer. It sends nil for one that is settled, and the letter
// for one that does not fit its retry topic.
func (s *Settler) put(ctx context.Context, l letter, record *kgo.Record, outcomes chan<- *letter) {
	s.putRecord(l.d, &produce.Request{Record: record, Context: ctx, Done: func(err error) {
		switch {
		case broker.TooLarge(err) && l.Delayed():
			outcomes <- &l
			return
		case broker.TooLarge(err) && deadletter.Truncate(record):
			s.put(ctx, l, record, outcomes)
			return
		case err == nil:
			s.metrics.count(&l)
			s.log(&l)
		}
		s.o.Scheduler.Recorded(l.d, err == nil)
		outcomes <- nil
	}})
}

// putRecord hands a record to the writer that belongs to a job.
func (s *Settler) putRecord(d *schedule.Delivery, r *produce.Request) {
	writing := schedule.AssignmentOf(d).Writing()
	done := r.Done
	r.Done = func(err error) {
		done(err)
		writing.Add(-1)
	}
	writing.Add(1)
	s.o.Writer.Put(r)
}
