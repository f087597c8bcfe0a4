package consumer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"dispatcher/consumer"
)

// A node that leaves its groups settles its jobs in flight and gives its partitions to the
// others. It gets some again when it rejoins.
func TestANodeThatLeavesItsGroupsGivesItsPartitionsUp(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		w.produce("jobs", numbered(0, 20)...)
		o := w.options()
		o.Workers = 2
		stalled := w.start(o, nil)
		held := stalled.holding(2)
		other := w.start(w.options(), done)
		stalled.c.LeaveGroups(errors.New("no worker"))
		w.until("the context of the jobs in flight has ended", func() bool { return held[0].Context().Err() != nil })
		if err := context.Cause(held[0].Context()); !errors.Is(err, consumer.ErrStopped) && !errors.Is(err, consumer.ErrRevoked) {
			t.Errorf("got cause %v, want ErrStopped or ErrRevoked", err)
		}
		for _, d := range held {
			d.Done(consumer.Outcome{})
		}
		w.until("the other one has done the rest", func() bool { return len(other.values()) == 18 })
		if err := stalled.c.Status().Ready(); err == nil || !strings.Contains(err.Error(), "left its groups: no worker") {
			t.Errorf("got %v from Ready, want the reason why the node left", err)
		}

		stalled.c.RejoinGroups()
		w.until("both have a part", func() bool { return stalled.parts() == 1 && other.parts() == 1 })
		if err := stalled.c.Status().Ready(); err != nil {
			t.Errorf("got %v from Ready after it rejoined, want nil", err)
		}
		w.produce("jobs", numbered(20, 40)...)
		w.until("it gets jobs again", func() bool {
			for _, d := range stalled.grab() {
				d.Done(consumer.Outcome{})
			}
			return len(stalled.values())+len(other.values()) == 40
		})
		set, repeats := sortedSet(stalled.values(), other.values())
		if len(set) != 40 || repeats != 0 || len(stalled.values()) == 2 {
			t.Errorf("got %d jobs and %d repeats, %d of them at the node that rejoined; want 40, 0 and more than 2", len(set), repeats, len(stalled.values()))
		}
		w.ok(stalled.end())
		w.ok(other.end())
	})
}

func done(d *consumer.Delivery) { d.Done(consumer.Outcome{}) }

// parts is how many partitions a node works.
func (n *node) parts() int { return len(n.c.Status().Partitions) }

// A consumer that has left its groups can be stopped.
func TestANodeOutsideItsGroupsCanStop(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		n := w.start(w.options(), nil)
		w.until("it has joined", func() bool { return n.c.Status().Joined })
		n.c.LeaveGroups(errors.New("no worker"))
		w.until("it has left", func() bool { return !n.c.Status().Joined })
		w.ok(n.end())
	})
}
