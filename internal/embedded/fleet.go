package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"dispatcher/internal/gathered"
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

// Gather reads the metrics of all nodes.
func (f *Fleet) Gather() (all gathered.Families) {
	for _, node := range f.Nodes {
		if families, err := node.Gatherer().Gather(); err == nil {
			all = append(all, families...)
		}
	}
	return all
}
