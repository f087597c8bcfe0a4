package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"dispatcher/throttle/limit"
)

const awaitEvery = 20 * time.Millisecond

// NotEverywhereError says that nodes did not learn new settings in time.
type NotEverywhereError struct {
	Revision int64
	Lack     []Node // those that don't know it; none of them has polled since
	Of       int    // nodes in all; 0: no node works with the limit
}

func (e *NotEverywhereError) Error() string {
	if e.Of == 0 {
		return fmt.Sprintf("revision %d is set, and no node works with this limit; it is in force for those that start", e.Revision)
	}
	names := make([]string, len(e.Lack))
	for i, n := range e.Lack {
		names[i] = fmt.Sprintf("%s was not seen for %s", n.Name, n.Seen.Round(100*time.Millisecond))
	}
	return fmt.Sprintf("revision %d is in force on %d of %d nodes; %s", e.Revision, e.Of-len(e.Lack), e.Of, strings.Join(names, ", "))
}

// Await waits until each node knows these settings or newer ones, and returns how
// many nodes that are. The error is a [NotEverywhereError] when the context ends
// first, when only missing nodes lack them, and when there is no node. Await asks a
// Redis that fails again, until the context ends: it may be failing over.
func (c *Control) Await(ctx context.Context, s limit.Settings) (n int, took time.Duration, err error) {
	begin := time.Now()
	ticker := time.NewTicker(awaitEvery)
	defer ticker.Stop()
	var late *NotEverywhereError
	for {
		there, err := c.Presence(ctx)
		nodes := there.Nodes
		took = time.Since(begin)
		if err == nil {
			lack := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return n.Has(s) })
			late = &NotEverywhereError{Revision: s.Revision, Lack: lack, Of: len(nodes)}
			switch {
			case len(nodes) == 0 || len(lack) > 0 && !slices.ContainsFunc(lack, func(n Node) bool { return !n.Missing() }):
				return len(nodes), took, late
			case len(lack) == 0:
				return len(nodes), took, nil
			}
		}
		select {
		case <-ticker.C:
			continue
		case <-ctx.Done():
		}
		if late == nil {
			return 0, took, fmt.Errorf("revision %d is set, but which nodes know it could not be read: %w", s.Revision, err)
		}
		return late.Of, took, late
	}
}
