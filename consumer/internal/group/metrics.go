package group

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the counters of all groups of a node. Every series is there from the start,
// so that a rate over its first event is not lost.
type Metrics struct {
	rebalances, commits, commitErrors *prometheus.CounterVec // by topic
}

// NewMetrics makes the series of topics.
func NewMetrics(topics []string) *Metrics {
	counters := func(name, help string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "dispatcher_consumer", Name: name, Help: help}, []string{"topic"})
		for _, topic := range topics {
			v.WithLabelValues(topic)
		}
		return v
	}
	return &Metrics{
		rebalances:   counters("rebalances_total", "Assignments received, by topic."),
		commits:      counters("commits_total", "Offset commits sent, by topic."),
		commitErrors: counters("commit_errors_total", "Offset commits that failed, by topic."),
	}
}

// Collectors are what a registry takes.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.rebalances, m.commits, m.commitErrors}
}
