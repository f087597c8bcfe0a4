package consumer

import (
	"strconv"

	"dispatcher/consumer/deadletter"

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
	delayed      *prometheus.CounterVec // by reason
	deadErrors   prometheus.Counter
}

const (
	reasonRetry    = "retry"
	reasonSchedule = "schedule"
)

// written counts a letter that Kafka has.
func (m *metrics) written(l letter) {
	switch {
	case !l.delayed():
		m.deadLetters.WithLabelValues(string(l.f.Class)).Inc()
	case l.f.Class == "":
		m.delayed.WithLabelValues(reasonSchedule).Inc()
	default:
		m.delayed.WithLabelValues(reasonRetry).Inc()
	}
}

func newMetrics(feeds []*feed) *metrics {
	var topics []string
	for _, f := range feeds {
		topics = append(topics, f.topic)
	}
	vec := func(name, help, label string, values []string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	var classes []string
	for _, c := range deadletter.Classes() {
		classes = append(classes, string(c))
	}
	return &metrics{
		rebalances:   vec("rebalances_total", "Assignments received, by topic.", "topic", topics),
		commits:      vec("commits_total", "Offset commits tried, by topic.", "topic", topics),
		commitErrors: vec("commit_errors_total", "Offset commits that failed, by topic.", "topic", topics),
		deadLetters:  vec("dead_letters_total", "Records written to a dead-letter topic, by class.", "class", classes),
		delayed:      vec("delayed_total", "Jobs written to a retry tier, by reason.", "reason", []string{reasonRetry, reasonSchedule}),
		deadErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "dead_letter_errors_total", Help: "Records for a dead-letter topic or a retry tier found refused or not acknowledged for half a second, each half second; they are tried again.",
		}),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.rebalances, m.commits, m.commitErrors, m.deadLetters, m.delayed, m.deadErrors}
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

// gaugeDescs are the descriptions; those of a lane in the order in which Collect
// uses them.
func gaugeDescs() (lag, open, joined *prometheus.Desc, ofLane []*prometheus.Desc) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	return desc("lag", "Last stable offset less the committed one, of this node's partitions.", "topic", "partition"),
		desc("open_offsets", "Offsets fetched and not complete, of this node's partitions.", "topic", "partition"),
		desc("joined", "1 when every topic's group has given this node its part."),
		[]*prometheus.Desc{
			desc("in_hand", "Jobs handed out and not settled.", "lane"),
			desc("ready_jobs", "Jobs that only wait for a slot.", "lane"),
			desc("waiting_jobs", "Records of this node's partitions that are not complete, less those in hand and asleep.", "lane"),
			desc("asleep_jobs", "Jobs that wait in memory for their time.", "lane"),
			desc("delayed_jobs", "Records of this node's partitions of retry tiers that are not complete, less those in hand and asleep.", "lane"),
			desc("oldest_job_age_seconds", "How long the oldest job of this node has been waiting, in hand or not, since it was written or was due.", "lane"),
			desc("drain_seconds", "Time until all that waits or is in hand would be settled at the rate of the last half minute.", "lane"),
		}
}

// Describe implements [prometheus.Collector].
func (gauges) Describe(ch chan<- *prometheus.Desc) {
	lag, open, joined, ofLane := gaugeDescs()
	for _, d := range append(ofLane, lag, open, joined) {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	lag, open, joined, ofLane := gaugeDescs()
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
		for i, v := range []float64{float64(l.InHand), float64(l.Ready), float64(l.Waiting), float64(l.Asleep), float64(l.Delayed), l.Oldest.Seconds(), l.Drain()} {
			gauge(ofLane[i], v, l.Lane)
		}
	}
	isJoined := 0.0
	if s.Joined {
		isJoined = 1
	}
	gauge(joined, isJoined)
}
