package consumer

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "dispatcher_consumer"

// gauges reads the consumer at each scrape, so that a partition that was taken away leaves
// no stale series.
type gauges struct{ c *Consumer }

// gaugeDescs are the descriptions; those of a lane are in the order of Collect.
func gaugeDescs() (lag, open, joined, up *prometheus.Desc, ofLane []*prometheus.Desc) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	return desc("lag_records", "Last stable offset less the committed one, of this node's partitions.", "topic", "partition"),
		desc("open_offsets", "Offsets that left the fetch buffer and are not complete, of this node's partitions.", "topic", "partition"),
		desc("joined", "1 when this node has joined the group of every topic and retry topic."),
		desc("kafka_up", "0 while this node can't join its groups, or while a fetch, a commit or a write of results has failed for 10 seconds; else 1."),
		[]*prometheus.Desc{
			desc("in_flight_jobs", "Jobs that were taken for a slot, that a worker has, or of which a record is being written.", "lane"),
			desc("ready_jobs", "Jobs that wait for a slot alone.", "lane"),
			desc("waiting_jobs", "Records of this node's partitions that are not complete, less those in flight and asleep.", "lane"),
			desc("asleep_jobs", "Jobs that wait in memory for their time, their next call, a limit after the first or the end of a rule.", "lane"),
			desc("behind_key_jobs", "Jobs that wait in memory behind another job of their key, or of their partition with order: partition.", "lane"),
			desc("delayed_jobs", "Records of this node's partitions of retry topics that are not complete, less those in flight and asleep.", "lane"),
			desc("oldest_job_age_seconds", "How long the oldest job of this node has been waiting or in flight, since it was written or was due.", "lane"),
			desc("drain_seconds", "Time until all that waits or is in flight would be settled at the rate of the last half minute.", "lane"),
		}
}

// Describe implements [prometheus.Collector].
func (gauges) Describe(ch chan<- *prometheus.Desc) {
	lag, open, joined, up, ofLane := gaugeDescs()
	for _, d := range append(ofLane, lag, open, joined, up) {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	lag, open, joined, up, ofLane := gaugeDescs()
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
		for i, v := range []float64{float64(l.InFlight), float64(l.Ready), float64(l.Waiting), float64(l.Asleep), float64(l.Behind), float64(l.Delayed), l.Oldest.Seconds(), l.Drain()} {
			gauge(ofLane[i], v, l.Lane)
		}
	}
	gauge(joined, oneIf(s.Joined))
	gauge(up, oneIf(s.kafkaFault() == nil))
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
