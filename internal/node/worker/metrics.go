package worker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/internal/histogram"
	"dispatcher/internal/node/pacer"
)

// metrics of a job's way through the node. All series exist from the start.
type metrics struct {
	wait  prometheus.Histogram
	age   prometheus.Histogram
	units prometheus.Counter
}

// CalledUnits is the metric that the figures of the node read.
const CalledUnits = "dispatcher_job_called_units_total"

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
			Name: CalledUnits,
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
func (m *metrics) sent(item pacer.Item, calls int, at time.Time) {
	if calls > 1 {
		return
	}
	m.wait.Observe(at.Sub(item.Began).Seconds())
	if !item.Delivery.Job.Time.IsZero() {
		m.age.Observe(max(0, at.Sub(item.Delivery.Job.Time).Seconds()))
	}
}
