// Package metrics has the Prometheus metrics of one limit on one node. All series exist from
// the start, but those of quotas.
package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/internal/histogram"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// Limit are those of its slots.
type Limit struct {
	granted    prometheus.Counter
	Late       prometheus.Counter
	Unused     prometheus.Counter
	TurnedAway prometheus.Counter
	Errors     prometheus.Counter
	calls      *prometheus.CounterVec
	cooldowns  *prometheus.CounterVec
	rtt        prometheus.Histogram
	lateness   prometheus.Histogram
	cap        prometheus.Gauge
	effective  prometheus.Gauge
	blocked    prometheus.Gauge
	window     prometheus.Gauge
	revision   prometheus.Gauge
	guard      prometheus.Gauge
	allowed    prometheus.Gauge
	longest    prometheus.Gauge
	reconciled *prometheus.CounterVec
	blocks     *prometheus.CounterVec
	quotaUsed  *prometheus.GaugeVec
	quotaCap   *prometheus.GaugeVec
}

// New registers them; reg nil: nowhere. gates are the names of the limits after the first. inFlight counts the calls in flight.
func New(reg prometheus.Registerer, limit string, gates []string, inFlight func() float64) *Limit {
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
		return histogram.New(prometheus.HistogramOpts{Name: "dispatcher_limit_" + name, Help: help, ConstLabels: labels, Buckets: buckets})
	}
	ofQuota := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "dispatcher_limit_" + name, Help: help}, []string{"limit"})
	}
	m := &Limit{
		granted:    counter("granted_units_total", "Units of the limit that this node was given."),
		Late:       counter("late_slots_total", "Slots whose time was over before they were used."),
		Unused:     counter("unused_slots_total", "Slots whose job could not be called when it was time."),
		TurnedAway: counter("turned_away_jobs_total", "Jobs for which a full bucket had no room, where it refuses."),
		Errors:     counter("script_errors_total", "Calls of reserve.lua that failed or were not answered in time."),
		calls:      vec("script_calls_total", "Calls of reserve.lua that were answered.", "outcome", "granted", "refused", "poll"),
		cooldowns:  vec("cooldowns_total", "Cooldowns that began with a call of this node.", "reason", script.CooldownNames[1:]...),
		reconciled: vec("reconciled_units_total", "Units by which the provider counted otherwise than a job was granted.", "outcome", "more", "fewer", "dropped"),
		rtt:        histogram("script_duration_seconds", "Time of a call of reserve.lua.", []float64{.0002, .0005, .001, .002, .003, .005, .01, .025, .05, .1, .25}),
		lateness:   histogram("slot_lateness_seconds", "From a slot's time to the first byte of its call.", []float64{.0001, .00025, .0005, .001, .0015, .002, .003, .005, .008, .012, .02, .03, .05}),
		cap:        gauge("cap_units", "The cap in force, in units a window."),
		effective:  gauge("effective_cap_units", "The effective cap, in units a window: lowered while the provider refuses calls."),
		blocked:    gauge("blocked_until_timestamp_seconds", "The end of the last block by the provider, in seconds since 1970; 0: none since the cap was last in force."),
		window:     gauge("window_seconds", "The window in force."),
		quotaUsed:  ofQuota("quota_used_units", "Units of a quota without a key that are used of its window."),
		blocks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dispatcher_limit_blocks_total", Help: "Calls that the provider refused for one value of the limit's key, which they blocked.",
		}, []string{"limit"}),
		quotaCap: ofQuota("quota_cap_units", "The cap in force of a quota without a key."),
		guard:    gauge("guard_seconds", "The guard in force: by how much delivery times may spread."),
		allowed:  gauge("lateness_seconds", "The lateness in force: how long after its time a slot may still be used."),
		longest:  gauge("longest_lateness_seconds", "The longest lateness that the fleet may choose; 0: it does not choose, or has no choice."),
		revision: gauge("revision", "The newest revision of the settings that this node has seen."),
	}
	busy := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dispatcher_limit_in_flight_calls", Help: "Calls in flight, from the grant of a slot until the answer.", ConstLabels: labels,
	}, inFlight)
	for _, name := range gates {
		m.blocks.WithLabelValues(name) // exists before the first block
	}
	if reg != nil {
		reg.MustRegister(busy, m.granted, m.Late, m.Unused, m.TurnedAway, m.Errors, m.calls, m.cooldowns, m.reconciled, m.blocks, m.rtt, m.lateness, m.cap, m.effective, m.blocked, m.window, m.revision, m.guard, m.allowed, m.longest, m.quotaUsed, m.quotaCap)
	}
	return m
}

// Binds shows the share of the time in which jobs waited for a limit.
func Binds(reg prometheus.Registerer, limit string, share func() float64) {
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dispatcher_limit_binds_ratio", ConstLabels: prometheus.Labels{"limit": limit},
		Help: "Share of the time, over about the last half minute, in which jobs of this node waited for the limit, from 0 to 1.",
	}, share)
	if reg != nil {
		reg.MustRegister(gauge)
	}
}

// Paused shows whether a limit is paused.
func Paused(reg prometheus.Registerer, limit string, is func() bool) {
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dispatcher_limit_paused", Help: "1 while the limit is paused.", ConstLabels: prometheus.Labels{"limit": limit},
	}, func() float64 {
		if is() {
			return 1
		}
		return 0
	})
	if reg != nil {
		reg.MustRegister(gauge)
	}
}

// phase shows what a limiter does.
type phase struct {
	desc *prometheus.Desc
	all  []string
	now  func() string
}

// Phase shows which of all phases a limiter is in.
func Phase(reg prometheus.Registerer, limit string, all []string, now func() string) {
	if reg != nil {
		reg.MustRegister(phase{prometheus.NewDesc("dispatcher_limit_phase", "1 for the phase of this node's limiter, 0 for the others.",
			[]string{"phase"}, prometheus.Labels{"limit": limit}), all, now})
	}
}

// Describe implements [prometheus.Collector].
func (p phase) Describe(ch chan<- *prometheus.Desc) { ch <- p.desc }

// Collect implements [prometheus.Collector].
func (p phase) Collect(ch chan<- prometheus.Metric) {
	now := p.now()
	for _, name := range p.all {
		is := 0.0
		if name == now {
			is = 1
		}
		ch <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, is, name)
	}
}

// Called counts a call of the script that was answered.
func (m *Limit) Called(want int64, r script.Reservation, took time.Duration) {
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

// Quota shows how much is used of a quota of that name.
func (m *Limit) Quota(name string, used, capacity int64) {
	m.quotaUsed.WithLabelValues(name).Set(float64(used))
	m.quotaCap.WithLabelValues(name).Set(float64(capacity))
}

// Reconciled counts units by which the provider's count was smaller than a job's, or larger where
// they are negative; kept: they are passed on to Redis.
func (m *Limit) Reconciled(units int64, kept bool) {
	switch {
	case !kept:
		m.reconciled.WithLabelValues("dropped").Add(math.Abs(float64(units)))
	case units < 0:
		m.reconciled.WithLabelValues("more").Add(-float64(units))
	default:
		m.reconciled.WithLabelValues("fewer").Add(float64(units))
	}
}

// Blocked counts a call that blocked a value of the key of a limit of that name.
func (m *Limit) Blocked(name string) { m.blocks.WithLabelValues(name).Inc() }

// Used counts how late a slot was used.
func (m *Limit) Used(lateness time.Duration) { m.lateness.Observe(lateness.Seconds()) }

// Settings shows those in force.
func (m *Limit) Settings(s limit.Settings) {
	m.cap.Set(float64(s.Cap))
	m.window.Set(s.Window.Seconds())
	m.revision.Set(float64(s.Revision))
	m.guard.Set(s.Guard.Seconds())
	m.allowed.Set(s.Lateness.Seconds())
	m.longest.Set(0)
	if longest := s.LongestLateness(); s.ChoosesLateness() && longest > limit.LatenessClasses[0] {
		m.longest.Set(longest.Seconds())
	}
}

// Slowdown shows what the provider's answers leave of the limit.
func (m *Limit) Slowdown(c limit.Contract, s limit.Slowdown) {
	m.effective.Set(s.EffectiveCap(c))
	m.blocked.Set(float64(s.Until) / 1e6)
}

// Lease counts the node's use of the reserve.
type Lease struct {
	Held  prometheus.Gauge
	Used  prometheus.Counter
	Calls *prometheus.CounterVec
}

// Holds shows whether the node holds a lease.
func (m *Lease) Holds(held bool) {
	holds := 0.0
	if held {
		holds = 1
	}
	m.Held.Set(holds)
}

// NewLease registers them; reg nil: nowhere.
func NewLease(reg prometheus.Registerer, limit string) *Lease {
	labels := prometheus.Labels{"limit": limit}
	m := &Lease{
		Held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dispatcher_limit_lease_held", Help: "1 while this node holds a lease of the reserve.", ConstLabels: labels,
		}),
		Used: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dispatcher_limit_reserve_units_total", Help: "Units of its lease that this node gave out while Redis was away.", ConstLabels: labels,
		}),
		Calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dispatcher_limit_lease_calls_total", Help: "Calls that ask for a lease of the reserve.", ConstLabels: labels,
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{"granted", "refused", "failed"} {
		m.Calls.WithLabelValues(outcome)
	}
	if reg != nil {
		reg.MustRegister(m.Held, m.Used, m.Calls)
	}
	return m
}
