package consumer

import (
	"context"
	"fmt"
	"sync"
)

// membership says whether this node is to be in its groups.
type membership struct {
	mu      sync.Mutex
	why     error         // it left its groups; nil: it is in them
	changed chan struct{} // closed and replaced when that changes
}

// leftError says why a node left its groups.
type leftError struct{ why error }

func (e *leftError) Error() string { return fmt.Sprintf("left its groups: %v", e.why) }
func (e *leftError) Unwrap() error { return e.why }

// LeaveGroups makes the node drain, commit and leave its groups, as at its end.
// [Consumer.Run] goes on without partitions until [Consumer.RejoinGroups]. It is for a node
// that can't work while others can. The call does not wait; [Status] shows why.
func (c *Consumer) LeaveGroups(why error) { c.membership.set(&leftError{why}) }

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

// await waits until the node is out of its groups, with left, or in them, without; or until
// ctx ends. It returns why the node left; nil: it did not.
func (m *membership) await(ctx context.Context, left bool) error {
	for {
		changed, why := m.read()
		if (why != nil) == left {
			return why
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return why
		}
	}
}
