package node

import "github.com/prometheus/client_golang/prometheus"

// registries have all metrics of a node, and its counters once more. A node publishes counters each second. To gather all metrics for
// that would ask for each partition, each open file of the process and the state of the runtime.
type registries struct{ all, counters *prometheus.Registry }

func newRegistries() *registries {
	return &registries{prometheus.NewRegistry(), prometheus.NewRegistry()}
}

// Register implements [prometheus.Registerer].
func (r *registries) Register(c prometheus.Collector) error {
	if err := r.all.Register(c); err != nil || !isCounter(c) {
		return err
	}
	return r.counters.Register(c)
}

// MustRegister implements [prometheus.Registerer].
func (r *registries) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements [prometheus.Registerer].
func (r *registries) Unregister(c prometheus.Collector) bool {
	r.counters.Unregister(c)
	return r.all.Unregister(c)
}

// isCounter tells whether a collector is a counter, with labels or without. A gauge has a counter's methods, too.
func isCounter(c prometheus.Collector) bool {
	switch c.(type) {
	case *prometheus.CounterVec:
		return true
	case prometheus.Gauge:
		return false
	case prometheus.Counter:
		return true
	}
	return false
}
