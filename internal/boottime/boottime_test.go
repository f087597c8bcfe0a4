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

// A deadline that keeps two ends with either, and with a suspension since the earlier reckoning.
func TestADeadlineKeepsTheStricterOfTwo(t *testing.T) {
	t.Parallel()
	now := time.Now()
	slot := boottime.Deadline{At: now.Add(3 * time.Second), Suspended: 5 * time.Second}
	claim := boottime.Deadline{At: now.Add(time.Second), Suspended: 7 * time.Second}
	for _, both := range []boottime.Deadline{slot.And(claim), claim.And(slot)} {
		if both.At != claim.At || both.Suspended != slot.Suspended {
			t.Errorf("got %+v, want the earlier time and the earlier reckoning", both)
		}
	}
}
