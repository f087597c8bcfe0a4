package sender_test

import (
	"sync/atomic"
	"testing"
	"time"

	"dispatcher/internal/provider"
	"dispatcher/sender"
)

// Each new connection reports its round trip once. It includes neither the provider's
// own time nor TCP's delayed acknowledgements.
func TestEachConnectionReportsItsRoundTripOnce(t *testing.T) {
	t.Parallel()
	const latency = 300 * time.Millisecond
	p := startProvider(t, provider.Options{Behaviour: provider.Behaviour{Latency: latency}})
	var reported atomic.Int64
	var longest atomic.Int64
	s := newSender(t, sender.Options{Config: sender.Config{URL: "http://" + p.Addr() + "/"}, OnRoundTrip: func(d time.Duration) {
		reported.Add(1)
		longest.Store(max(longest.Load(), int64(d)))
	}})
	permits := 0
	for range 3 {
		if res := s.Send(t.Context(), aJob("a", "x"), always(&permits)); res.Kind != sender.Accepted {
			t.Fatalf("got %+v", res)
		}
	}
	if d := time.Duration(longest.Load()); reported.Load() != 1 || d <= 0 || d >= latency {
		t.Errorf("got %d round trips, the longest of %v, from one connection to a provider that takes %v", reported.Load(), d, latency)
	}
	if d, err := s.Reach(t.Context()); err != nil || d <= 0 || reported.Load() != 2 {
		t.Errorf("a second connection: got %v, %v, and %d round trips", d, err, reported.Load())
	}
}
