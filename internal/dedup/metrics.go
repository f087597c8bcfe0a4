package dedup

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/internal/histogram"
)

// metrics of one dedup store. All series exist from the start.
type metrics struct {
	entries   *prometheus.CounterVec
	claims    *prometheus.CounterVec
	calls     prometheus.Counter
	errors    prometheus.Counter
	lost      prometheus.Counter
	unwritten prometheus.Counter
	waiting   prometheus.Gauge
	rtt       prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	const prefix = "dispatcher_dedup_"
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
	}
	vec := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	m := &metrics{
		entries:   vec("entries_total", "Entries that Redis has acknowledged.", "verb", string(verbClaim), string(verbDone), string(verbRelease), string(verbPeek)),
		claims:    vec("claims_total", "Claims that Redis has answered, by result.", "result", Granted.String(), "taken", Sent.String(), Busy.String(), Unknown.String()),
		calls:     counter("script_calls_total", "Calls of the dedup store's script that were answered."),
		errors:    counter("script_errors_total", "Calls of the dedup store's script that failed or were not answered in time."),
		lost:      counter("losses_total", "Times that Redis had lost the dedup store, as this node saw it."),
		unwritten: counter("unwritten_jobs_total", "Jobs that were sent, and whose record Redis had not acknowledged when they were taken away."),
		waiting:   prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + "waiting_entries", Help: "Entries that Redis has not answered yet."}),
		rtt: histogram.New(prometheus.HistogramOpts{
			Name: prefix + "script_duration_seconds", Help: "Time of a call of the dedup store's script.",
			Buckets: []float64{.0002, .0005, .001, .002, .003, .005, .01, .025, .05, .1, .25},
		}),
	}
	if reg != nil {
		reg.MustRegister(m.entries, m.claims, m.calls, m.errors, m.lost, m.unwritten, m.waiting, m.rtt)
	}
	return m
}

func (m *metrics) called(err error, took time.Duration) {
	m.rtt.Observe(took.Seconds())
	if err != nil {
		m.errors.Inc()
		return
	}
	m.calls.Inc()
}

func (m *metrics) answered(v verb, t result) {
	m.entries.WithLabelValues(string(v)).Inc()
	if v != verbClaim {
		return
	}
	label := t.answer().Standing.String()
	if t.code == codeTaken {
		label = "taken"
	}
	m.claims.WithLabelValues(label).Inc()
}
