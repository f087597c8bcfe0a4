package node

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/sender"
)

// Each kind of result, and what it leads to.
func TestPolicy(t *testing.T) {
	t.Parallel()
	const asked = 7 * time.Second
	for _, c := range []struct {
		kind      sender.Kind
		onUnknown OnUnknown
		want      verdict
	}{
		{sender.Accepted, UnknownRetry, verdict{fate: fateDone}},
		{sender.Rejected, UnknownRetry, verdict{fate: fateDead, class: deadletter.ClassPermanent}},
		{sender.Throttled, UnknownRetry, verdict{fate: fateRetry, after: asked}},
		{sender.Unavailable, UnknownRetry, verdict{fate: fateRetry, class: deadletter.ClassUnavailable, counts: true, after: asked}},
		{sender.Unknown, UnknownRetry, verdict{fate: fateRetry, class: deadletter.ClassUnknown, counts: true}},
		{sender.Unknown, UnknownDead, verdict{fate: fateDead, class: deadletter.ClassUnknown}},
		{sender.Unknown, UnknownPark, verdict{fate: fateDead, class: deadletter.ClassUnknown}},
		{sender.NotSent, UnknownRetry, verdict{fate: fateReturn}},
	} {
		got := policy{onUnknown: c.onUnknown}.decide(sender.Result{Kind: c.kind, RetryAfter: asked})
		if got != c.want {
			t.Errorf("%v, on_unknown %s: got %+v, want %+v", c.kind, c.onUnknown, got, c.want)
		}
	}
}

func TestFailureSaysWhatTheProviderSaid(t *testing.T) {
	t.Parallel()
	got := failure(deadletter.ClassExhausted, sender.Result{Status: 503, Err: errors.New("status 503")}, 4)
	want := deadletter.Failure{Class: deadletter.ClassExhausted, Code: "503", Message: "status 503", Attempt: 4}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// shut fails calls until the gate shuts.
func shut(t *testing.T, g *gate, failures int) {
	t.Helper()
	for range failures {
		done, err := g.enter()
		if err != nil {
			t.Fatal(err)
		}
		done(sender.Result{Kind: sender.Unavailable}, false)
	}
}

// After so many failures in a row one job may go at a time, as a probe, until one
// succeeds. Then what waits is woken.
func TestGateProbesAProviderThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failures, probe = 3, time.Second
		woken := 0
		g := newGate(failures, probe, func(open bool) {
			if !open {
				woken++
			}
		})
		shut(t, g, failures)
		start := time.Now()
		if _, err := g.enter(); !errors.Is(err, errDown) || g.isOpen() {
			t.Errorf("got %v and open %v of a provider that is down", err, g.isOpen())
		}
		if err := g.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got < probe || got > 3*probe/2 {
			t.Errorf("the first probe went after %v, want %v or a little more", got, probe)
		}
		first, err := g.enter()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.enter(); !errors.Is(err, errDown) || g.isOpen() {
			t.Errorf("got %v and open %v while the probe is out", err, g.isOpen())
		}
		first(sender.Result{Kind: sender.Accepted}, false)
		if woken != 1 || !g.isOpen() || !g.isOpen() {
			t.Errorf("got %d times word that the provider answers again and open %v, want once and open", woken, g.isOpen())
		}
	})
}

// A call that was not made says nothing of the provider, nor does a failure that
// the job is to blame for.
func TestWhatIsNoFailureOfTheProvider(t *testing.T) {
	t.Parallel()
	g := newGate(2, time.Hour, func(bool) {})
	for range 10 {
		for kind, blamed := range map[sender.Kind]bool{sender.NotSent: false, sender.Unavailable: true} {
			done, err := g.enter()
			if err != nil {
				t.Fatal(err)
			}
			done(sender.Result{Kind: kind}, blamed)
		}
	}
	if !g.isOpen() {
		t.Error("got it shut")
	}
}
