package consumer

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "dispatcher_consumer"

// metrics are the counters. Every series is there from the start, so that a
// rate over its first event is not lost.
type metrics struct {
	rebalances   *prometheus.CounterVec // by topic
	commits      *prometheus.CounterVec
	commitErrors *prometheus.CounterVec
	deadLetters  *prometheus.CounterVec // by class
	deadErrors   prometheus.Counter
}

func newMetrics(topics []string) *metrics {
	vec := func(name, help, label string, values []string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	classes := []string{
		string(ClassDecode), string(ClassUnsupported), string(ClassPermanent),
		string(ClassExhausted), string(ClassExpired), string(ClassUnknown),
	}
	return &metrics{
		rebalances:   vec("rebalances_total", "Assignments received, by topic.", "topic", topics),
		commits:      vec("commits_total", "Offset commits tried, by topic.", "topic", topics),
		commitErrors: vec("commit_errors_total", "Offset commits that failed, by topic.", "topic", topics),
		deadLetters:  vec("dead_letters_total", "Records written to a dead-letter topic, by class.", "class", classes),
		deadErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "dead_letter_errors_total", Help: "Writes to a dead-letter topic that failed and were tried again.",
		}),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.rebalances, m.commits, m.commitErrors, m.deadLetters, m.deadErrors}
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}

// gauges read the consumer at each scrape, so that a partition that was taken
// away leaves no stale series behind.
type gauges struct{ c *Consumer }

// gaugeDescs are the descriptions in the order in which Collect uses them.
func gaugeDescs() (lag, open, inHand, joined, ready, waiting *prometheus.Desc) {
	perPartition, perLane := []string{"topic", "partition"}, []string{"lane"}
	name := func(n string) string { return prometheus.BuildFQName(namespace, "", n) }
	return prometheus.NewDesc(name("lag"), "Last stable offset less the committed one, of this node's partitions.", perPartition, nil),
		prometheus.NewDesc(name("open_offsets"), "Offsets fetched and not complete, of this node's partitions.", perPartition, nil),
		prometheus.NewDesc(name("in_hand"), "Jobs handed out and not settled.", perLane, nil),
		prometheus.NewDesc(name("joined"), "1 when every topic's group has given this node its part.", nil, nil),
		prometheus.NewDesc(name("ready_jobs"), "Jobs that only wait for a slot.", perLane, nil),
		prometheus.NewDesc(name("waiting_jobs"), "Records that are not complete, less those in hand, of this node's partitions.", perLane, nil)
}

// Describe implements [prometheus.Collector].
func (gauges) Describe(ch chan<- *prometheus.Desc) {
	lag, open, inHand, joined, ready, waiting := gaugeDescs()
	for _, d := range []*prometheus.Desc{lag, open, inHand, joined, ready, waiting} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	lag, open, inHand, joined, ready, waiting := gaugeDescs()
	s := g.c.Status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, p := range s.Partitions {
		id := strconv.Itoa(p.Partition)
		gauge(lag, float64(p.Lag), p.Topic, id)
		gauge(open, float64(p.Open), p.Topic, id)
	}
	for _, l := range s.Lanes {
		gauge(inHand, float64(l.InHand), l.Lane)
		gauge(ready, float64(l.Ready), l.Lane)
		gauge(waiting, float64(l.Waiting), l.Lane)
	}
	isJoined := 0.0
	if s.Joined {
		isJoined = 1
	}
	gauge(joined, isJoined)
}
