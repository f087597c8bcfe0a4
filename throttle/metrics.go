package throttle

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// metrics of one limiter. All series exist from the start.
type metrics struct {
	granted    prometheus.Counter
	late       prometheus.Counter
	unused     prometheus.Counter
	turnedAway prometheus.Counter
	errors     prometheus.Counter
	calls      *prometheus.CounterVec
	cooldowns  *prometheus.CounterVec
	rtt        prometheus.Histogram
	lateness   prometheus.Histogram
	cap        prometheus.Gauge
	window     prometheus.Gauge
	paused     prometheus.Gauge
	revision   prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, limit string, inFlight func() float64) *metrics {
	labels := prometheus.Labels{"limit": limit}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "dispatcher_limit_" + name, Help: help, ConstLabels: labels})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "dispatcher_limit_" + name, Help: help, ConstLabels: labels})
	}
	vec := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dispatcher_limit_" + name, Help: help, ConstLabels: labels}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dispatcher_limit_" + name, Help: help, ConstLabels: labels, Buckets: buckets})
	}
	m := &metrics{
		granted:    counter("granted_units_total", "Units of the limit that this node was given."),
		late:       counter("late_slots_total", "Slots whose time was over before they were used."),
		unused:     counter("unused_slots_total", "Slots whose job could not be called when it was time."),
		turnedAway: counter("turned_away_total", "Jobs for which a full bucket had no room, where it refuses."),
		errors:     counter("script_errors_total", "Calls of reserve.lua that failed or were not answered in time."),
		calls:      vec("script_calls_total", "Calls of reserve.lua that were answered.", "outcome", "granted", "refused", "poll"),
		cooldowns:  vec("cooldowns_total", "Cooldowns that began with a call of this node.", "reason", script.CooldownNames[1:]...),
		rtt:        histogram("script_seconds", "Time of a call of reserve.lua.", []float64{.0002, .0005, .001, .002, .003, .005, .01, .025, .05, .1, .25}),
		lateness:   histogram("slot_lateness_seconds", "From a slot's time to the first byte of its call.", []float64{.0001, .00025, .0005, .001, .0015, .002, .003, .005, .008, .012, .02, .03, .05}),
		cap:        gauge("cap_units", "The cap in force, in units a window."),
		window:     gauge("window_seconds", "The window in force."),
		paused:     gauge("paused", "1 while the limit is paused."),
		revision:   gauge("revision", "The newest revision of the settings that this node has seen."),
	}
	busy := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dispatcher_limit_in_flight_calls", Help: "Calls in flight, from the grant of a slot until the answer.", ConstLabels: labels,
	}, inFlight)
	if reg != nil {
		reg.MustRegister(busy, m.granted, m.late, m.unused, m.turnedAway, m.errors, m.calls, m.cooldowns, m.rtt, m.lateness, m.cap, m.window, m.paused, m.revision)
	}
	return m
}

func (m *metrics) called(want int64, r script.Reservation, took time.Duration) {
	m.rtt.Observe(took.Seconds())
	switch {
	case r.Schedule.Given > 0:
		m.granted.Add(float64(r.Schedule.Given))
		m.calls.WithLabelValues("granted").Inc()
	case want > 0:
		m.calls.WithLabelValues("refused").Inc()
	default:
		m.calls.WithLabelValues("poll").Inc()
	}
	if r.Cooldown != script.CooldownNone {
		m.cooldowns.WithLabelValues(r.Cooldown.String()).Inc()
	}
}

func (m *metrics) used(lateness time.Duration) { m.lateness.Observe(lateness.Seconds()) }

func (m *metrics) settings(s limit.Settings) {
	m.cap.Set(float64(s.Cap))
	m.window.Set(s.Window.Seconds())
	m.paused.Set(0)
	if s.Paused {
		m.paused.Set(1)
	}
	m.revision.Set(float64(s.Revision))
}
