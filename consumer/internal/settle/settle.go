package settle

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/health"
	"dispatcher/consumer/internal/produce"
	"dispatcher/consumer/internal/schedule"
	"dispatcher/internal/tally"
)

// Options configures a [Settler].
type Options struct {
	Connection  *broker.Connection
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
	o         Options
	writer    *produce.Writer
	metrics   *metrics
	results   *results // nil: none are written
	sums      *tally.Tally[logged]
	transfers health.Health // of records that are no results: they make no node unready. A fault of one partition is logged once a minute
}

// New makes a settler. It does not connect.
func New(o Options) (*Settler, error) {
	s := &Settler{o: o, metrics: newMetrics(), sums: tally.New[logged](mostClasses)}
	if o.Results {
		s.results = newResults()
	}
	var err error
	if s.writer, err = produce.NewWriter(o.Connection, produce.WriterOptions{Logger: o.Log, Report: s.writeFailed, Retry: true}); err != nil {
		return nil, err
	}
	if o.Registerer == nil {
		return s, nil
	}
	return s, s.register()
}

// Fit fits the writer's batches to the settings of a topic.
func (s *Settler) Fit(topic string, is broker.TopicSettings) { s.writer.UseSettings(topic, is) }

// Close gives up the records that have no outcome; some may still be written.
func (s *Settler) Close() { s.writer.Close() }

// Done implements [schedule.Settler].
func (s *Settler) Done(d *schedule.Delivery, o schedule.Outcome) {
	if s.results == nil {
		schedule.Settle(d)
		return
	}
	if schedule.BeginRecord(d) {
		s.putResult(schedule.LifetimeOf(d).Over(), d, o, "", func(written bool) { schedule.EndRecord(d, written) })
	}
}

// Dead implements [schedule.Settler]. If the result is not written when the drain ends, the
// job is released.
func (s *Settler) Dead(d *schedule.Delivery, f deadletter.Failure, o schedule.Outcome) {
	if s.results != nil && !s.writeResult(d, f, o) {
		schedule.EndRecord(d, false)
		return
	}
	s.write(transfer{d: d, failure: f})
}

// writeResult writes a job's result, and waits until Kafka has it. false: the drain ended before.
func (s *Settler) writeResult(d *schedule.Delivery, f deadletter.Failure, o schedule.Outcome) bool {
	written := make(chan bool, 1)
	s.putResult(schedule.LifetimeOf(d).Over(), d, o, f.Class, func(yes bool) { written <- yes })
	select {
	case yes := <-written:
		return yes
	case <-schedule.LifetimeOf(d).Over().Done():
		return false
	}
}

// RetryLater implements [schedule.Settler].
func (s *Settler) RetryLater(d *schedule.Delivery, delay time.Duration, due time.Time, f deadletter.Failure) bool {
	t := transfer{d: d, failure: f, delay: delay, due: due}
	if s.write(t) == tooLarge {
		s.logTooLarge(&t)
		return false
	}
	return true
}
