package consumer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"dispatcher/consumer"
)

// Whoever stands aside settles what is in hand, gives the rest to the others, and
// gets a part again when it asks for one.
func TestANodeThatStandsAsideGivesItsPartitionsUp(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *world) {
		w.produce("jobs", numbered(0, 20)...)
		o := w.options()
		o.MaxInFlight = 2
		wedged := w.start(o, nil)
		held := wedged.holding(2)
		other := w.start(w.options(), done)
		wedged.c.LeaveGroups(errors.New("no hands"))
		w.until("the context of what is in hand has ended", func() bool { return held[0].Context().Err() != nil })
		if err := context.Cause(held[0].Context()); !errors.Is(err, consumer.ErrStopped) && !errors.Is(err, consumer.ErrRevoked) {
			t.Errorf("got cause %v", err)
		}
		for _, d := range held {
			d.Done()
		}
		w.until("the other one has done the rest", func() bool { return len(other.values()) == 18 })
		if err := wedged.c.Status().Ready(); err == nil || !strings.Contains(err.Error(), "left its groups: no hands") {
			t.Errorf("got %v from Ready, want why the node stands aside", err)
		}

		wedged.c.RejoinGroups()
		w.until("both have a part", func() bool { return wedged.parts() == 1 && other.parts() == 1 })
		if err := wedged.c.Status().Ready(); err != nil {
			t.Errorf("got %v from Ready after it takes part again", err)
		}
		w.produce("jobs", numbered(20, 40)...)
		w.until("it gets jobs again", func() bool {
			for _, d := range wedged.grab() {
				d.Done()
			}
			return len(wedged.values())+len(other.values()) == 40
		})
		set, repeats := sortedSet(wedged.values(), other.values())
		if len(set) != 40 || repeats != 0 || len(wedged.values()) == 2 {
			t.Errorf("got %d jobs and %d repeats, %d of them at the node that stood aside", len(set), repeats, len(wedged.values()))
		}
		w.ok(wedged.end())
		w.ok(other.end())
	})
}

func done(d *consumer.Delivery) { d.Done() }

// parts is how many partitions a node works.
func (n *node) parts() int { return len(n.c.Status().Partitions) }

// A consumer that stands aside can be stopped.
func TestANodeThatStandsAsideCanStop(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *world) {
		n := w.start(w.options(), nil)
		w.until("it has joined", func() bool { return n.c.Status().Joined })
		n.c.LeaveGroups(errors.New("no hands"))
		w.until("it has left", func() bool { return !n.c.Status().Joined })
		w.ok(n.end())
	})
}

// moved and idle are what a node learns of the others, by what they did meanwhile.
func (n *node) others(meanwhile func()) (moved, idle bool) {
	n.w.t.Helper()
	before, err := n.c.PeerProgress(n.w.t.Context())
	n.w.ok(err)
	meanwhile()
	now, err := n.c.PeerProgress(n.w.t.Context())
	n.w.ok(err)
	return now.Moved(before), now.Idle()
}

func nothing() {}

// What others do is known by what they commit, and that they have nothing to do
// by what there is.
func TestANodeKnowsWhatOthersDo(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *world) {
		expect := func(who string, n *node, meanwhile func(), moved, idle bool) {
			w.t.Helper()
			if m, i := n.others(meanwhile); m != moved || i != idle {
				w.t.Errorf("%s: got moved: %v and idle: %v of the others, want %v and %v", who, m, i, moved, idle)
			}
		}
		w.produce("jobs", numbered(0, 20)...)
		a := w.start(w.options(), nil)
		for _, d := range a.holding(20) {
			d.Done()
		}
		w.until("all is committed", func() bool { return a.c.Status().Lag == 0 })
		expect("alone", a, nothing, false, false)

		b := w.start(w.options(), nil)
		w.until("both have a part", func() bool { return a.parts() == 1 && b.parts() == 1 })
		expect("with an idle one", a, nothing, false, true)

		w.produce("jobs", numbered(20, 40)...)
		w.until("both have work", func() bool { return a.c.Status().InFlight > 0 && b.c.Status().InFlight > 0 })
		expect("with one that stands still", a, nothing, false, false)
		expect("with one that works", a, func() {
			for _, d := range b.grab() {
				d.Done()
			}
			w.until("b has done its work", func() bool { return b.c.Status().Lag == 0 })
		}, true, true)
		expect("beside a", b, nothing, false, false)
		for _, d := range a.holding(1) {
			d.Release()
		}
	})
}

// A member without partitions has nothing to do.
func TestAStandbyIsIdle(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *world) {
		w.start(w.options(), done)
		w.produce("jobs", numbered(0, 1)...)
		w.waitFor("jobs", 0, 1)
		w.start(w.options(), nil)
		w.until("both have joined", func() bool {
			return !slices.ContainsFunc(w.nodes, func(n *node) bool { return !n.c.Status().Joined })
		})
		holder := slices.IndexFunc(w.nodes, func(n *node) bool { return n.parts() == 1 })
		if moved, idle := w.nodes[holder].others(nothing); moved || !idle {
			t.Errorf("got moved: %v and idle: %v of a standby", moved, idle)
		}
	})
}
