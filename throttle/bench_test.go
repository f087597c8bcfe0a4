package throttle

import (
	"context"
	"testing"
	"time"
)

// What a slot costs the node: from a caller's question to its slot, and the
// reservation, mapping and holding of blocks behind it, without Redis's part. A
// fleet that is not short of slots is the costliest case, since nobody waits.
func BenchmarkBroker(b *testing.B) {
	const plenty = 100_000_000 // a second: the benchmark must not wait for slots
	set := contract(plenty)
	l, err := New(Options{Namespace: "ns", Name: "provider", Node: "n", Limit: scopedSpec(set, 0)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	c := callerOf(l, plenty)
	if _, err := c.next(ctx); err != nil { // past the start
		b.Fatal(err)
	}
	b.ReportAllocs()
	late := 0
	for b.Loop() {
		s, err := c.next(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if s.LateAt(time.Now()) {
			late++
		}
	}
	stop()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(late)/float64(b.N), "late/op")
}
