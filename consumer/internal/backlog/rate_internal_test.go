package backlog

import (
	"math"
	"testing"
	"time"
)

// A steady pace is what the rate shows from the third second on, however often it is read, and a pace that ends is forgotten in a few
// spans.
func TestARateFollowsThePace(t *testing.T) {
	t.Parallel()
	for _, every := range []int{1, 7, 200, 2000} { // events between two readings
		var r Rate
		now := time.Unix(1000, 0)
		for range 3 {
			now = now.Add(time.Hour)
			if got := r.PerSecond(now); got != 0 {
				t.Errorf("got %v before anything was counted, want 0", got)
			}
		}
		for n := 1; n <= 200*120; n++ { // 200 a second for two minutes
			now = now.Add(5 * time.Millisecond)
			r.Count()
			if n%every != 0 {
				continue
			}
			if got := r.PerSecond(now); n > 400 && math.Abs(got-200) > 1 {
				t.Fatalf("got %v a second after %d of 200 a second, read after each %d, want about 200", got, n, every)
			}
		}
		if got := r.PerSecond(now); math.Abs(got-200) > 1 {
			t.Errorf("got %v a second when it is read again at once, want about 200", got)
		}
		if got := r.PerSecond(now.Add(3 * time.Minute)); got > 1 {
			t.Errorf("got %v a second three minutes after the last one, want next to nothing", got)
		}
	}
}

// A change of pace counts by two thirds after a span, however often the rate is read meanwhile.
func TestARateFollowsAChange(t *testing.T) {
	t.Parallel()
	for _, every := range []int{1, 50, 3000} { // events between two readings
		var r Rate
		now := time.Unix(1000, 0)
		r.PerSecond(now)
		for range 100 * 300 {
			now = now.Add(10 * time.Millisecond)
			r.Count()
		}
		r.PerSecond(now)
		for n := 1; n <= 200*30; n++ {
			now = now.Add(5 * time.Millisecond)
			r.Count()
			if n%every == 0 {
				r.PerSecond(now)
			}
		}
		if got, want := r.PerSecond(now), 200-100/math.E; math.Abs(got-want) > 1 {
			t.Errorf("got %v a second, read after each %d, 30 s after 100 a second became 200, want %v", got, every, want)
		}
	}
}
