package provider

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStallsAreJoined(t *testing.T) {
	t.Parallel()
	const guard = 10 * time.Millisecond
	var w stallWatch
	w.note(100*time.Millisecond, 120*time.Millisecond, guard)
	w.note(130*time.Millisecond, 145*time.Millisecond, guard) // where the first one's guard ends
	w.note(200*time.Millisecond, 300*time.Millisecond, guard)
	want := []Stall{
		{100 * time.Millisecond, 155 * time.Millisecond},
		{200 * time.Millisecond, 310 * time.Millisecond},
	}
	if diff := cmp.Diff(want, w.all()); diff != "" {
		t.Errorf("stalls (-want +got):\n%s", diff)
	}
	w.reset()
	if got := w.all(); len(got) != 0 {
		t.Errorf("got %v after a reset", got)
	}
}

// In a bubble time stands still while anyone works, so that nothing stalls.
func TestWatchFindsNothingWhereNothingStalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var w stallWatch
		w.run(ctx, time.Now(), 2*time.Millisecond)
		if got := w.all(); len(got) != 0 {
			t.Errorf("got %v, want none", got)
		}
	})
}
