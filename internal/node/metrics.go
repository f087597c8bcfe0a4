package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a node's way of a job. All series exist from the start.
type metrics struct {
	wait prometheus.Histogram
	age  prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "dispatcher_job_wait_seconds",
			Help:    "From the head of this node's line to the first byte of the call: mostly the wait for a slot.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30},
		}),
		age: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "dispatcher_job_age_seconds",
			Help:    "Age of a job, by its record's timestamp, when it was first sent.",
			Buckets: []float64{.01, .1, 1, 10, 60, 600, 3600, 86400},
		}),
	}
	if reg != nil {
		reg.MustRegister(m.wait, m.age)
	}
	return m
}

// sent takes in the first call of a job.
func (m *metrics) sent(t turn, calls int, at time.Time) {
	if calls > 1 {
		return
	}
	m.wait.Observe(at.Sub(t.since).Seconds())
	if !t.d.Job.Time.IsZero() {
		m.age.Observe(max(0, at.Sub(t.d.Job.Time).Seconds()))
	}
}
