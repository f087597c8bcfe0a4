package throttle

import (
	"context"
	"fmt"
)

// InUseError says that a limit can't be deleted: nodes work with it.
type InUseError struct {
	Name  string
	Nodes int // that were there within the last seconds, or hold a part of the reserve
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("limit %q is used by %d nodes; nothing was deleted: stop them, or take the limit out of their configuration, and wait %s",
		e.Name, e.Nodes, goneAfter)
}

// Delete removes a limit's keys from Redis. It returns [ErrUnknownLimit] where
// there is no such limit, and [InUseError] while nodes use it. A limit of that name
// that begins again grants nothing until all calls under the old one have left its
// window.
func (c *Control) Delete(ctx context.Context) error {
	keys := []string{c.keys.limit, c.keys.history, c.keys.state, c.keys.nodes, c.keys.shares, c.keys.lateness}
	n, err := c.scripts.remove.Run(ctx, c.rdb, keys, goneAfter.Microseconds()).Int64Slice()
	switch {
	case err != nil:
		return fmt.Errorf("delete limit %q: %w", c.name, err)
	case len(n) != 2:
		return fmt.Errorf("delete limit %q: %w: %d values", c.name, errReply, len(n))
	case n[0] == 1:
		return c.unknown()
	case n[0] == 2:
		return &InUseError{Name: c.name, Nodes: int(n[1])}
	}
	return nil
}
