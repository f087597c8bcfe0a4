package consumer

import (
	"log/slog"
	"strings"
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
func (r *writeReports) report(o *outgoing, err error) {
	topic, partition := o.record.Topic, int(o.partition.Load())
	if of, ok := strings.CutSuffix(topic, resultsSuffix); ok && r.results != nil {
		r.results.errors.Inc()
		if r.state.fails(source{sourceResults, of, partition}, err, writePatience) {
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
func (r *writeReports) over(o *outgoing) {
	if of, ok := strings.CutSuffix(o.record.Topic, resultsSuffix); ok {
		r.state.works(source{sourceResults, of, int(o.partition.Load())})
	}
}
