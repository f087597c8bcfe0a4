package node

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"dispatcher/configs"
	"dispatcher/internal/node/pacer"
	"dispatcher/internal/node/worker"
	"dispatcher/throttle"
)

// What a node publishes each second is among its counters, and nothing there has to be asked for partitions.
func TestCountersAreGatheredAlone(t *testing.T) {
	t.Parallel()
	r := newRegistries()
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "of_a_class_total"}, []string{"class"})
	vec.WithLabelValues("permanent")
	gauges := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "of_a_partition"}, []string{"partition"})
	gauges.WithLabelValues("0")
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "plain_total"})
	r.MustRegister(vec, counter, gauges, prometheus.NewGauge(prometheus.GaugeOpts{Name: "plain"}), prometheus.NewHistogram(prometheus.HistogramOpts{Name: "seconds"}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "asked"}, func() float64 { return 1 }))
	names := func(from prometheus.Gatherer) (names []string) {
		families, err := from.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			names = append(names, f.GetName())
		}
		return names
	}
	if got, want := names(r.counters), []string{"of_a_class_total", "plain_total"}; !slices.Equal(got, want) {
		t.Errorf("got %v among the counters, want %v", got, want)
	}
	if got := names(r.all); len(got) != 6 {
		t.Errorf("got %v in all, want 6 metrics", got)
	}
	if !r.Unregister(counter) || len(names(r.counters)) != 1 || len(names(r.all)) != 5 {
		t.Errorf("got %v and %v after one left, want it in neither", names(r.counters), names(r.all))
	}
	if err := r.Register(vec); err == nil {
		t.Error("got no error for a collector that is there already")
	}
}

// A node finds each counter that it publishes: one that is missing would be published as none.
func TestWhatANodePublishesIsCounted(t *testing.T) {
	t.Parallel()
	cfg, err := configs.Load(configs.Source{Set: []string{"kafka.brokers=127.0.0.1:1", "redis.addrs=127.0.0.1:1", "admin.listen="}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(cfg, slog.New(slog.DiscardHandler), throttle.IdentityInfo)
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	n.workers(n.breaker(), pacer.NewPlaces()) // their metrics
	families, err := n.registry.counters.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{countedCalls, countedDeadLetters, countedGranted, countedLate, countedScriptCalls, worker.CalledUnits} {
		if !slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name }) {
			t.Errorf("got no counter %s, want all that are published", name)
		}
	}
}
