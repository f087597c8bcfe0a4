package node

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/admin"
	"dispatcher/internal/histogram"
	"dispatcher/internal/version"
)

// metrics of a job's way through the node. All series exist from the start.
type metrics struct {
	wait  prometheus.Histogram
	age   prometheus.Histogram
	units prometheus.Counter
}

// calledUnits is the metric that the figures of the node read.
const calledUnits = "dispatcher_job_called_units_total"

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		wait: histogram.New(prometheus.HistogramOpts{
			Name:    "dispatcher_job_wait_seconds",
			Help:    "From the time at which the pacer began to wait for a job's slot to the first byte of its call: mostly the wait for the slot.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30},
		}),
		age: histogram.New(prometheus.HistogramOpts{
			Name:    "dispatcher_job_age_seconds",
			Help:    "Age of a job, by its record's timestamp, when it was first sent.",
			Buckets: []float64{.01, .1, 1, 10, 60, 600, 3600, 86400},
		}),
		units: prometheus.NewCounter(prometheus.CounterOpts{
			Name: calledUnits,
			Help: "Units of the first limit that calls counted: as the provider named them, else as the job did.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.wait, m.age, m.units)
	}
	return m
}

// called records what a call counted that may have reached the provider.
func (m *metrics) called(asked int64, counted *int64) {
	if counted != nil {
		asked = *counted
	}
	m.units.Add(float64(asked))
}

// sent records the first call of a job.
func (m *metrics) sent(item workItem, calls int, at time.Time) {
	if calls > 1 {
		return
	}
	m.wait.Observe(at.Sub(item.since).Seconds())
	if !item.d.Job.Time.IsZero() {
		m.age.Observe(max(0, at.Sub(item.d.Job.Time).Seconds()))
	}
}

// checks shows the parts of the node's health, as /readyz does.
type checks struct{ all []admin.Check }

func checkDesc() *prometheus.Desc {
	return prometheus.NewDesc("dispatcher_node_check_ok", "1 while a check of /readyz succeeds, 0 while it fails and the node is not ready.", []string{"check"}, nil)
}

// Describe implements [prometheus.Collector].
func (checks) Describe(ch chan<- *prometheus.Desc) { ch <- checkDesc() }

// Collect implements [prometheus.Collector].
func (c checks) Collect(ch chan<- prometheus.Metric) {
	for _, check := range admin.Ask(context.Background(), c.all).Checks {
		ok := 0.0
		if check.OK {
			ok = 1
		}
		ch <- prometheus.MustNewConstMetric(checkDesc(), prometheus.GaugeValue, ok, check.Name)
	}
}

// buildInfo names the version of the program.
func buildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dispatcher_build_info", Help: "Always 1; the label names the version of the program.",
		ConstLabels: prometheus.Labels{"version": version.Text()},
	}, func() float64 { return 1 })
}

// gateRefusals makes the metrics of the limits after the first. They are named as those of
// the first limit. waiting is how many jobs wait for each, by its name.
func gateRefusals(reg prometheus.Registerer, names []string, waiting func() map[string]int) *prometheus.CounterVec {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dispatcher_limit_refused_jobs_total", Help: "Jobs that began to wait for this limit, which is not the first one.",
	}, []string{"limit"})
	for _, name := range names {
		refused.WithLabelValues(name)
	}
	if reg == nil || len(names) == 0 {
		return refused
	}
	reg.MustRegister(refused)
	for _, name := range names {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dispatcher_limit_waiting_jobs", Help: "Jobs of this node that wait for this limit, which is not the first one.",
			ConstLabels: prometheus.Labels{"limit": name},
		}, func() float64 { return float64(waiting()[name]) }))
	}
	return refused
}
