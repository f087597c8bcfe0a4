package backlog

import (
	"math"
	"testing"
	"time"
)

// A steady pace is what the rate shows after a few spans, and a pace that ends
// is forgotten in a few.
func TestARateFollowsThePace(t *testing.T) {
	t.Parallel()
	var r Rate
	now := time.Unix(1000, 0)
	if got := r.PerSecond(now); got != 0 {
		t.Errorf("got %v before anything was counted, want 0", got)
	}
	for n := range 200 * 120 { // 200 a second for two minutes
		now = now.Add(5 * time.Millisecond)
		r.Tick(now)
		if got := r.PerSecond(now); n > 400 && math.Abs(got-200) > 6 {
			t.Fatalf("got %v a second after %d of 200 a second, want about 200 from the third second on", got, n)
		}
	}
	if got := r.PerSecond(now); math.Abs(got-200) > 6 {
		t.Errorf("got %v a second, want about 200", got)
	}
	if got := r.PerSecond(now.Add(3 * time.Minute)); got > 1 {
		t.Errorf("got %v a second three minutes after the last one, want next to nothing", got)
	}
}
