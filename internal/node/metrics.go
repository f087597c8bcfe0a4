package node

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/admin"
	"dispatcher/internal/version"
)

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
