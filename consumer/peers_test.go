package consumer_test

import (
	"slices"
	"testing"
	"time"

	"dispatcher/consumer"
)

// peers returns whether a node sees that the others have moved meanwhile, and are idle.
func (n *node) peers(meanwhile func()) (moved, idle bool) {
	n.w.t.Helper()
	before, err := n.c.PeerProgress(n.w.t.Context())
	n.w.ok(err)
	meanwhile()
	now, err := n.c.PeerProgress(n.w.t.Context())
	n.w.ok(err)
	return now.Moved(before), now.Idle()
}

func nothing() {}

// The peers' progress is known by their commits, and that they are idle by the ends of their
// logs.
func TestANodeKnowsThePeersProgress(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		expect := func(name string, n *node, meanwhile func(), moved, idle bool) {
			w.t.Helper()
			if m, i := n.peers(meanwhile); m != moved || i != idle {
				w.t.Errorf("%s: got moved: %v and idle: %v of the others, want %v and %v", name, m, i, moved, idle)
			}
		}
		w.produce("jobs", numbered(0, 20)...)
		a := w.start(w.options(), nil)
		for _, d := range a.holding(20) {
			d.Done(consumer.Outcome{})
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
				d.Done(consumer.Outcome{})
			}
			w.until("b has done its work", func() bool { return b.c.Status().Lag == 0 })
		}, true, true)
		expect("beside a", b, nothing, false, false)
		for _, d := range a.holding(1) {
			d.Release()
		}
	})
}

// Members whose jobs all wait in a retry topic are idle. What they get done there counts as
// progress.
func TestPeersWithJobsInRetryTopicsAreIdle(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		o := w.options()
		o.RetryTopics = []time.Duration{time.Minute}
		a, b := w.start(o, settled), w.start(o, settled)
		w.until("both have a part", func() bool { return a.parts() == 2 && b.parts() == 2 })
		due := time.Now().Add(2 * time.Minute)
		for p := range 2 {
			r := scheduled("later", due)
			r.Key = []byte(keysOf(p, 2, 1)[0])
			w.produce("jobs", r)
			w.waitFor("jobs", p, 1)
		}
		for name, n := range map[string]*node{"one": a, "the other": b} {
			if moved, idle := n.peers(nothing); moved || !idle {
				t.Errorf("%s: got moved: %v and idle: %v of its peer, want false and true", name, moved, idle)
			}
		}
		moved, _ := a.peers(func() {
			time.Sleep(3 * time.Minute)
			w.until("all is done", func() bool { return a.c.Status().Lag+b.c.Status().Lag == 0 })
		})
		if !moved {
			t.Error("got no progress of a peer that works its retry topic, want some")
		}
	})
}

// A member without partitions is idle.
func TestAStandbyIsIdle(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.start(w.options(), done)
		w.produce("jobs", numbered(0, 1)...)
		w.waitFor("jobs", 0, 1)
		w.start(w.options(), nil)
		w.until("both have joined", func() bool {
			return !slices.ContainsFunc(w.nodes, func(n *node) bool { return !n.c.Status().Joined })
		})
		holder := slices.IndexFunc(w.nodes, func(n *node) bool { return n.parts() == 1 })
		if moved, idle := w.nodes[holder].peers(nothing); moved || !idle {
			t.Errorf("got moved: %v and idle: %v of a standby, want false and true", moved, idle)
		}
	})
}
