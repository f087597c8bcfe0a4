package schedule

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Through retry topics and a last wait in memory a job is due exactly at its time: each delay
// is over in time, and the rest at the end is shorter than the first delay.
func TestDelaysNeverOvershoot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		delays := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(1, 3600).Draw(t, "seconds")) * time.Second
		}), 1, 8, rapid.ID).Draw(t, "delays")
		slices.Sort(delays)
		left := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "wait"))
		passes := 0
		for delay := delayFor(delays, left); delay > 0; delay = delayFor(delays, left) {
			if i := slices.Index(delays, delay); i+1 < len(delays) && delays[i+1] <= left {
				t.Fatalf("got delay %v for a wait of %v, want %v", delay, left, delays[i+1])
			}
			left -= delay
			if passes++; left < 0 {
				t.Fatalf("got a delay of %v, want one that is %v shorter", delay, -left)
			}
		}
		if left >= delays[0] {
			t.Fatalf("got %v left, want less than the first delay of %v", left, delays[0])
		}
	})
}
