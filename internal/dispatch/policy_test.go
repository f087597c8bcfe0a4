package dispatch

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer"
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
		{sender.Rejected, UnknownRetry, verdict{fate: fateDead, class: consumer.ClassPermanent}},
		{sender.Throttled, UnknownRetry, verdict{fate: fateRetry, after: asked}},
		{sender.Unavailable, UnknownRetry, verdict{fate: fateRetry, class: consumer.ClassUnavailable, counts: true, after: asked}},
		{sender.Unknown, UnknownRetry, verdict{fate: fateRetry, class: consumer.ClassUnknown, counts: true}},
		{sender.Unknown, UnknownDead, verdict{fate: fateDead, class: consumer.ClassUnknown}},
		{sender.Unknown, UnknownPark, verdict{fate: fateDead, class: consumer.ClassUnknown}},
		{sender.Withheld, UnknownRetry, verdict{fate: fateReturn}},
	} {
		got := policy{onUnknown: c.onUnknown}.decide(sender.Result{Kind: c.kind, RetryAfter: asked})
		if got != c.want {
			t.Errorf("%v, on_unknown %s: got %+v, want %+v", c.kind, c.onUnknown, got, c.want)
		}
	}
}

func TestFailureSaysWhatTheProviderSaid(t *testing.T) {
	t.Parallel()
	got := failure(consumer.ClassExhausted, sender.Result{Status: 503, Err: errors.New("status 503")}, 4)
	want := consumer.Failure{Class: consumer.ClassExhausted, Code: "503", Message: "status 503", Attempt: 4}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// After so many failures in a row one probe goes at a time, until one succeeds.
func TestGateProbesAProviderThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const failures, probe = 3, time.Second
		g := newGate(failures, probe, slog.New(slog.DiscardHandler))
		for range failures {
			done, err := g.enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			done(sender.Result{Kind: sender.Unavailable})
		}
		start := time.Now()
		entered := make(chan func(sender.Result))
		for range 2 {
			go func() {
				done, err := g.enter(t.Context())
				if err != nil {
					t.Error(err)
				}
				entered <- done
			}()
		}
		first := <-entered
		if got := time.Since(start); got < probe {
			t.Errorf("the first probe went after %v, want %v", got, probe)
		}
		select {
		case <-entered:
			t.Error("a second call went while the probe was out")
		case <-time.After(5 * probe):
		}
		at := time.Now()
		first(sender.Result{Kind: sender.Accepted})
		second := <-entered
		if got := time.Since(at); got != 0 {
			t.Errorf("the other call went %v after the probe had succeeded, want at once", got)
		}
		second(sender.Result{Kind: sender.Accepted})
		if err := g.open(t.Context()); err != nil {
			t.Errorf("open: %v", err)
		}
	})
}

// A call that was not made says nothing of the provider.
func TestWithheldIsNoFailure(t *testing.T) {
	t.Parallel()
	g := newGate(2, time.Hour, slog.New(slog.DiscardHandler))
	for range 10 {
		done, err := g.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done(sender.Result{Kind: sender.Withheld})
	}
	if err := g.open(t.Context()); err != nil {
		t.Error(err)
	}
}
