package settle

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/health"
	"dispatcher/consumer/internal/produce"
	"dispatcher/consumer/internal/schedule"
	"dispatcher/internal/tally"
)

// Options configures a [Settler].
type Options struct {
	Scheduler   *schedule.Scheduler
	Writer      *produce.Writer
	Health      *health.Health // of the consumer
	Log         *slog.Logger
	Registerer  prometheus.Registerer // nil: no metrics
	Group       string                // prefix: the group of a topic is <group>.<topic>
	Node        string
	ParkUnknown bool // dead letters of ClassUnknown go to <topic>.parked
	Results     bool // each job has a record on <topic>.results
}

// Settler writes dead letters, records of retry topics and results. Its methods may be
// called from any goroutine.
type Settler struct {
	o       Options
	metrics *metrics
	results *results // nil: none are written
	sums    *tally.Tally[logged]
	letters health.Health // of records that are no results: they make no node unready
}

// New makes a settler. Its writer reports to [Settler.Report].
func New(o Options) (*Settler, error) {
	s := &Settler{o: o, metrics: newMetrics(), sums: tally.New[logged](mostClasses)}
	if o.Results {
		s.results = newResults()
	}
	if o.Registerer == nil {
		return s, nil
	}
	return s, s.register()
}

// UseWriter says who brings the records to Kafka, before the first of them.
func (s *Settler) UseWriter(w *produce.Writer) { s.o.Writer = w }

// Done settles the job, once Kafka has its result. It does not block. If the result is not
// written when the drain ends the job is released.
func (s *Settler) Done(d *schedule.Delivery, o schedule.Outcome) {
	if s.results == nil {
		d.Done()
		return
	}
	if s.o.Scheduler.Claim(d) {
		s.putResult(schedule.AssignmentOf(d).Over(), d, o, "", func(written bool) {
			if written {
				d.Done()
			} else {
				d.Release()
			}
		})
	}
}

// DeadWithResult writes the job's result and then does as [Settler.Dead] does. If the
// result is not written when the drain ends the job is released.
func (s *Settler) DeadWithResult(d *schedule.Delivery, f deadletter.Failure, o schedule.Outcome) {
	if s.results == nil {
		d.Dead(f)
		return
	}
	if !s.o.Scheduler.Claim(d) {
		return
	}
	written := make(chan bool, 1)
	s.putResult(schedule.AssignmentOf(d).Over(), d, o, f.Class, func(yes bool) { written <- yes })
	if await(d, written) {
		d.Dead(f)
	} else {
		d.Release()
	}
}

// Dead writes the dead letter of a job that a worker has.
func (s *Settler) Dead(d *schedule.Delivery, f deadletter.Failure) {
	s.write(schedule.AssignmentOf(d).Letters(), []letter{{d, schedule.Rejection{Failure: f}}})
}

// RetryLater writes a job that a worker has to the retry topic of a delay. false: the topic
// does not take a record that large.
func (s *Settler) RetryLater(d *schedule.Delivery, delay time.Duration, due time.Time, f deadletter.Failure) bool {
	l := letter{d, schedule.Rejection{Failure: f, Delay: delay, Due: due}}
	if len(s.write(schedule.AssignmentOf(d).Letters(), []letter{l})) == 0 {
		return true
	}
	s.logTooLarge(&l)
	return false
}
