package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	dto "github.com/prometheus/client_model/go"

	"dispatcher/internal/node"
	"dispatcher/throttle"
)

// Fleet is several nodes in this process, all on the same parts.
type Fleet struct {
	Nodes []*node.Node
}

// NewFleet puts n nodes together, with settings as in [Parts.Config].
func NewFleet(p *Parts, n int, log *slog.Logger, settings ...string) (*Fleet, error) {
	f := &Fleet{}
	for i := range n {
		name := fmt.Sprintf("node-%d", i+1)
		cfg, err := p.Config(append([]string{"node=" + name, "admin.listen="}, settings...)...)
		if err != nil {
			return nil, err
		}
		node, err := node.New(cfg, log.With("node", name), throttle.IdentityNone)
		if err != nil {
			return nil, err
		}
		f.Nodes = append(f.Nodes, node)
	}
	return f, nil
}

// Run runs all nodes until ctx ends, and joins their errors. If one node ends before,
// it stops the others.
func (f *Fleet) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(f.Nodes))
	var wg sync.WaitGroup
	for i, node := range f.Nodes {
		wg.Go(func() {
			defer stop()
			errs[i] = node.Run(ctx)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Working is how many nodes have partitions.
func (f *Fleet) Working() (n int) {
	for _, node := range f.Nodes {
		if len(node.Consumer().Partitions) > 0 {
			n++
		}
	}
	return n
}

// Sum adds a counter up over all nodes and labels; a missing metric counts as 0.
func (f *Fleet) Sum(metric string) float64 { return f.Gather().Sum(metric) }

// Metrics are those of several nodes at one moment.
type Metrics struct{ families []*dto.MetricFamily }

// Gather reads the metrics of all nodes.
func (f *Fleet) Gather() (m Metrics) {
	for _, node := range f.Nodes {
		if families, err := node.Gatherer().Gather(); err == nil {
			m.families = append(m.families, families...)
		}
	}
	return m
}

// Sum adds a counter up over all nodes and labels; a missing metric counts as 0.
func (m Metrics) Sum(metric string) (sum float64) {
	m.each(metric, func(one *dto.Metric) { sum += one.GetCounter().GetValue() })
	return sum
}

// Gauges joins the values of a gauge on all nodes, by the value of a label.
func (m Metrics) Gauges(metric, label string, join func(a, b float64) float64) map[string]float64 {
	values := make(map[string]float64)
	m.each(metric, func(one *dto.Metric) {
		for _, l := range one.GetLabel() {
			if l.GetName() == label {
				values[l.GetValue()] = join(values[l.GetValue()], one.GetGauge().GetValue())
			}
		}
	})
	return values
}

// each calls do with each series of a metric, on all nodes.
func (m Metrics) each(metric string, do func(*dto.Metric)) {
	for _, family := range m.families {
		if family.GetName() != metric {
			continue
		}
		for _, one := range family.GetMetric() {
			do(one)
		}
	}
}
