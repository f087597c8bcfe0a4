package settle

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/consumer/deadletter"
	"dispatcher/job"
)

const namespace = "dispatcher_consumer"

const (
	reasonRetry    = "retry"
	reasonSchedule = "schedule"
)

// metrics are the counters. Every series is there from the start, so that a rate over its first
// event is not lost; of results, those that package job names.
type metrics struct {
	deadLetters *prometheus.CounterVec // by class
	delayed     *prometheus.CounterVec // by reason
	errors      prometheus.Counter
}

func newMetrics() *metrics {
	var classes []string
	for _, c := range deadletter.Classes() {
		classes = append(classes, string(c))
	}
	return &metrics{
		deadLetters: counters("dead_letters_total", "Records written to a dead-letter topic, by class.", "class", classes),
		delayed:     counters("retry_topic_records_total", "Jobs written to a retry topic, by reason.", "reason", []string{reasonRetry, reasonSchedule}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "dead_letter_errors_total", Help: "Records for dead-letter and retry topics that Kafka refused or had not acknowledged, counted once each half second; they are tried again.",
		}),
	}
}

func counters(name, help, label string, values []string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{label})
	for _, value := range values {
		v.WithLabelValues(value)
	}
	return v
}

// count counts a job whose record Kafka has.
func (m *metrics) count(t *transfer) {
	switch {
	case !t.delayed():
		m.deadLetters.WithLabelValues(string(t.failure.Class)).Inc()
	case t.failure.Class == "":
		m.delayed.WithLabelValues(reasonSchedule).Inc()
	default:
		m.delayed.WithLabelValues(reasonRetry).Inc()
	}
}

// resultMetrics are there only where results are written.
type resultMetrics struct {
	written *prometheus.CounterVec // by result
	errors  prometheus.Counter
}

func newResultMetrics() *resultMetrics {
	return &resultMetrics{
		written: counters("results_total", "Results written, by result.", "result",
			[]string{job.ResultAccepted, job.ResultRejected, job.ResultExpired, job.ResultExhausted, job.ResultUnknown}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "result_errors_total", Help: "Results that Kafka refused or had not acknowledged, counted once each half second; they are tried again.",
		}),
	}
}

func (s *Settler) register() error {
	all := []prometheus.Collector{s.metrics.deadLetters, s.metrics.delayed, s.metrics.errors}
	if r := s.results; r != nil {
		all = append(all, r.metrics.written, r.metrics.errors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace, Name: "waiting_results", Help: "Results that Kafka has not acknowledged; their jobs are open.",
		}, func() float64 { return float64(r.waiting.Load()) }))
	}
	for _, c := range all {
		if err := s.o.Registerer.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}
