package consumer_test

import (
	"testing"
	"time"

	"dispatcher/consumer"
)

// A node that was killed and comes back waits until the group has forgotten it: the others
// work on meanwhile. A node of another name joins at once.
func TestAKilledNodeThatComesBackHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		name  string
		still bool
	}{"under its name": {"two", false}, "under another one": {"three", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, 2, func(w *fleet) {
				named := func(name string) consumer.Options {
					o := w.options()
					o.ClientID = name
					return o
				}
				one := w.start(named("one"), done)
				killed := &wires{dial: w.net.DialContext}
				o := named("two")
				o.Dial = killed.connect
				w.start(o, done)
				w.until("both have a part", func() bool { return w.nodes[0].parts() == 1 && w.nodes[1].parts() == 1 })

				killed.cut(true)
				died := time.Now()
				again := w.start(named(c.name), done)
				w.until("the other one sees the rebalance", func() bool { return one.parts() == 0 || time.Since(died) > 5*time.Second })
				if stood := one.parts() == 0; stood != c.still {
					t.Errorf("the other one stands still: %v, want %v", stood, c.still)
				}
				w.until("the new one has a part", func() bool { return again.parts() == 1 && one.parts() == 1 })
				if took := time.Since(died); took > 13*time.Second {
					t.Errorf("it had its part after %v, want at most 13s with a session of 10s", took)
				}
			})
		})
	}
}
