package breaker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/sender"
)

// open fails calls until the breaker opens.
func open(t *testing.T, b *Breaker, failures int) {
	t.Helper()
	for range failures {
		done, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		done(sender.Result{Kind: sender.Unavailable}, ToProvider)
	}
}

// After so many failures in a row the breaker lets one job through at a time, as a
// probe, until one is answered. Then it notifies its owner.
func TestABreakerProbesAProviderThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failures, probe = 3, time.Second
		answers := 0
		b := New(failures, probe, func(open bool) {
			if !open {
				answers++
			}
		})
		open(t, b, failures)
		start := time.Now()
		if _, err := b.Allow(); !errors.Is(err, ErrOpen) || b.TakeTurn() {
			t.Errorf("got %v and ready %v of a provider that is down", err, b.TakeTurn())
		}
		if err := b.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got < probe || got > 3*probe/2 {
			t.Errorf("the first probe went after %v, want %v or a little more", got, probe)
		}
		first, err := b.Allow()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Allow(); !errors.Is(err, ErrOpen) || b.TakeTurn() {
			t.Errorf("got %v and ready %v while the probe is out", err, b.TakeTurn())
		}
		first(sender.Result{Kind: sender.Accepted}, ToProvider)
		if answers != 1 || !b.TakeTurn() || !b.TakeTurn() {
			t.Errorf("got %d notices that the provider answers again and ready %v, want one and ready", answers, b.TakeTurn())
		}
	})
}

// A call that was not made does not open the breaker, nor does a failure that is
// attributed to its job.
func TestFailuresThatDoNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	b := New(2, time.Hour, func(bool) {})
	for range 10 {
		for kind, to := range map[sender.Kind]Attribution{sender.NotSent: ToProvider, sender.Unavailable: ToJob} {
			done, err := b.Allow()
			if err != nil {
				t.Fatal(err)
			}
			done(sender.Result{Kind: kind}, to)
		}
	}
	if !b.TakeTurn() {
		t.Error("got the breaker open, want it closed")
	}
}
