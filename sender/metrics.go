package sender

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/internal/histogram"
	"dispatcher/sender/internal/conns"
)

// metrics of one sender. All series exist from the start, so that a rate of zero is a
// zero and not a gap.
type metrics struct {
	calls     *prometheus.CounterVec // by result
	duration  prometheus.Histogram
	dials     *prometheus.CounterVec // by result
	late      prometheus.Counter
	uncounted prometheus.Counter

	roundTrip prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer, p *conns.Pool) (*metrics, error) {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dispatcher_sender_calls_total",
			Help: "Jobs handed to the sender, by what happened.",
		}, []string{"result"}),
		duration: histogram.New(prometheus.HistogramOpts{
			Name:    "dispatcher_sender_call_duration_seconds",
			Help:    "From the first byte written to the end of the answer or of the wait for it.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15), // 1 ms to 16 s
		}),
		dials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dispatcher_sender_dials_total",
			Help: "Connections to the provider that were tried, by result.",
		}, []string{"result"}),
		late: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dispatcher_sender_late_writes_refused_total",
			Help: "Permits that were over when the write was to begin; nothing was written.",
		}),
		uncounted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dispatcher_sender_answers_without_units_total",
			Help: "Answers that accepted a job and did not name its units where sender.http.units says.",
		}),
		roundTrip: histogram.New(prometheus.HistogramOpts{
			Name:    "dispatcher_sender_round_trip_seconds",
			Help:    "Round trips to the provider: of the TCP handshake of each new connection.",
			Buckets: []float64{.0002, .0005, .001, .002, .003, .005, .007, .01, .015, .02, .03, .05, .1, .2, .5},
		}),
	}
	for _, k := range Kinds() {
		m.calls.WithLabelValues(k.String())
	}
	m.dials.WithLabelValues("ok")
	m.dials.WithLabelValues("error")
	if reg == nil {
		return m, nil
	}
	return m, register(reg, m.calls, m.dials, m.duration, m.late, m.uncounted, m.roundTrip,
		connections(p, "busy", func(open, idle int) int { return open - idle }),
		connections(p, "idle", func(_, idle int) int { return idle }))
}

func connections(p *conns.Pool, state string, pick func(open, idle int) int) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "dispatcher_sender_connections",
		Help:        "Open connections to the provider, by whether a call uses them.",
		ConstLabels: prometheus.Labels{"state": state},
	}, func() float64 { return float64(pick(p.Counts())) })
}

func register(reg prometheus.Registerer, cs ...prometheus.Collector) error {
	var errs []error
	for _, c := range cs {
		errs = append(errs, reg.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register the sender's metrics: %w", err)
	}
	return nil
}

func (m *metrics) observe(res *Result) {
	m.calls.WithLabelValues(res.Kind.String()).Inc()
	if !res.WroteAt.IsZero() {
		m.duration.Observe(res.Elapsed.Seconds())
	}
}
