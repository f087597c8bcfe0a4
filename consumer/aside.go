package consumer

import (
	"context"
	"fmt"
	"sync"
)

// membership is whether this node is to be in its groups.
type membership struct {
	mu      sync.Mutex
	why     error         // it stands aside; nil: it takes part
	changed chan struct{} // closed and replaced when that changes
}

// asideError is why a node stands aside.
type asideError struct{ why error }

func (e *asideError) Error() string { return fmt.Sprintf("stands aside: %v", e.why) }
func (e *asideError) Unwrap() error { return e.why }

// LeaveGroups gives this node's partitions up: it drains, commits and leaves its
// groups, as at its end, and [Consumer.Run] goes on without them until
// [Consumer.RejoinGroups]. It is for a node that can't work while others can, and is
// not awaited; [Status] shows why.
func (c *Consumer) LeaveGroups(why error) { c.membership.set(&asideError{why}) }

// RejoinGroups joins the groups again, after [Consumer.LeaveGroups].
func (c *Consumer) RejoinGroups() { c.membership.set(nil) }

func (m *membership) set(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.why = why
	if m.changed != nil {
		close(m.changed)
	}
	m.changed = nil
}

func (m *membership) read() (changed <-chan struct{}, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.changed, m.why
}

// await waits until the node is to stand aside, or is not, or ctx ends, and
// returns why it stands aside then.
func (m *membership) await(ctx context.Context, aside bool) error {
	for {
		changed, why := m.read()
		if (why != nil) == aside {
			return why
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return why
		}
	}
}
