package binding

import (
	"math"
	"testing"
	"time"
)

// The share follows the state with a time constant of half a minute, however often it is noted.
func TestTheShareOfTimeIsSmoothed(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Millisecond, time.Second, 5 * time.Second} {
		var b Share
		now := time.Unix(0, 0)
		for ; now.Before(time.Unix(30, 0)); now = now.Add(step) {
			b.Note(now, time.Unix(1<<40, 0))
		}
		if got, want := b.At(now), 1-1/math.E; math.Abs(got-want) > 0.001 {
			t.Errorf("noted each %v: got %.3f after half a minute, want %.3f", step, got, want)
		}
		b.Note(now, time.Time{})
		if got, want := b.At(now.Add(time.Minute)), (1-1/math.E)*math.Exp(-2); math.Abs(got-want) > 0.001 {
			t.Errorf("noted each %v: got %.3f a minute after the end, want %.3f", step, got, want)
		}
	}
}

// Jobs that waited for a moment count for that moment, though the node does nothing for long.
func TestAMomentCountsForAMoment(t *testing.T) {
	t.Parallel()
	var b Share
	now := time.Unix(0, 0)
	for range 200 {
		b.Note(now, now.Add(20*time.Millisecond))
		now = now.Add(2 * time.Second)
	}
	if got := b.At(now); math.Abs(got-0.01) > 0.002 {
		t.Errorf("got %.4f for 20 ms in each 2 s, want 0.01", got)
	}
}
