package boottime_test

import (
	"testing"
	"time"

	"dispatcher/internal/boottime"
)

// A host that was not suspended in between shows the same twice.
func TestNothingIsSeenWithoutASuspension(t *testing.T) {
	t.Parallel()
	first := boottime.Suspended()
	for range 1000 {
		if grown := boottime.Suspended() - first; grown > 50*time.Millisecond || grown < -50*time.Millisecond {
			t.Fatalf("got a suspension of %v, want none", grown)
		}
	}
}

func BenchmarkSuspended(b *testing.B) {
	for b.Loop() {
		boottime.Suspended()
	}
}
