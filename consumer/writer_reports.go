package consumer

import (
	"log/slog"

	"dispatcher/consumer/internal/produce"

	"dispatcher/consumer/internal/topicname"
)

const (
	sourceResults = "results"
	sourceLetters = "letters"
)

// writeReports are what becomes known of records that Kafka has not taken yet.
type writeReports struct {
	state   *state // of the consumer
	letters state  // of records that are no results: they make no node unready
	metrics *metrics
	results *resultMetrics // nil: there are none
	log     *slog.Logger
}

// report notes that a record was refused, or is late.
func (r *writeReports) report(o *produce.Request, err error) {
	topic, partition := o.Record.Topic, int(o.Partition.Load())
	if of, ok := topicname.ResultsOf(topic); ok && r.results != nil {
		r.results.errors.Inc()
		if r.state.fails(source{sourceResults, of, partition}, err, produce.Patience) {
			r.log.Error("results could not be written, their jobs stay open, trying again",
				"topic", topic, "partition", partition, "error", err)
		}
		return
	}
	r.metrics.deadErrors.Inc()
	if r.letters.fails(source{sourceLetters, topic, partition}, err, 0) {
		r.log.Error("a dead letter or a job that is tried again later could not be written, the job stays open, trying again",
			"topic", topic, "partition", partition, "error", err)
	}
}

// over notes that a result has its outcome.
func (r *writeReports) over(o *produce.Request) {
	if of, ok := topicname.ResultsOf(o.Record.Topic); ok {
		r.state.works(source{sourceResults, of, int(o.Partition.Load())})
	}
}
