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

// A provider that answers is up, however slowly: failures in a row may all be of jobs that can't succeed.
func TestASlowProviderThatAnswersIsUp(t *testing.T) {
	t.Parallel()
	for latency, up := range map[time.Duration]bool{100 * time.Millisecond: true, 900 * time.Millisecond: true, 0: false} {
		synctest.Test(t, func(t *testing.T) {
			const failures, probe = 20, time.Second
			b := New(failures, probe, func(bool) {})
			begin := time.Now()
			time.Sleep(latency)
			if up {
				b.Attribute(&Record{Since: begin}, sender.Result{Kind: sender.Accepted, WroteAt: begin}, time.Now(), func() {})
			}
			for range failures {
				done, err := b.Allow()
				if err != nil {
					t.Fatal(err)
				}
				j, r := Record{Since: begin}, sender.Result{Kind: sender.Unavailable, Status: 500, WroteAt: begin}
				done(r, b.Attribute(&j, r, time.Now(), func() {}))
			}
			if b.Closed() != up {
				t.Errorf("answers after %v, the last one just now: %t. Got closed: %t", latency, up, b.Closed())
			}
		})
	}
}

// A call of which nothing was written counts against no job, but against the provider.
func TestAFailedDialCountsAgainstNoJob(t *testing.T) {
	t.Parallel()
	b := New(20, time.Second, func(bool) {})
	now := time.Now()
	answered := func(at time.Time) {
		b.Attribute(&Record{Since: now}, sender.Result{Kind: sender.Accepted, WroteAt: at}, at, func() {})
	}
	answered(now)
	j := Record{Since: now.Add(-time.Second), Failed: true}
	refused := sender.Result{Kind: sender.Unavailable}
	if got := b.Attribute(&j, refused, now.Add(1), func() { t.Error("it counts later") }); got != ToProvider || j.Failures != 0 || !b.failing() {
		t.Errorf("got %d, %d failures of the job, failing %t; want it attributed to the provider", got, j.Failures, b.failing())
	}
	answered(now.Add(time.Second))
	if b.failing() || j.pending != nil {
		t.Errorf("got failing %t and pending %t after an answer, want neither", b.failing(), j.pending != nil)
	}
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
