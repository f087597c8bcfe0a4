package throttle

import (
	"errors"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/internal/fault"
)

// An operator can't ask of a limit what its algorithm can't honour.
func TestAChangeIsRefusedThatTheAlgorithmCanNotKeep(t *testing.T) {
	t.Parallel()
	rdb := patient(t, miniredis.RunT(t).Addr())
	a := algorithm(SlidingWindowLog)
	known := seededBy(a.Name, contract(300))
	if _, err := NewScripts(rdb, "ns", "provider", "n").Reserve(t.Context(), ask{seq: 1, identity: string(IdentityNone), known: known}); err != nil {
		t.Fatal(err)
	}
	control, err := NewControl(rdb, "ns", "provider")
	if err != nil {
		t.Fatal(err)
	}
	burst := int64(20)
	_, err = control.Set(t.Context(), Change{Burst: &burst, By: "test"})
	var fault *fault.Error
	if !errors.As(err, &fault) || fault.Field != "burst" {
		t.Errorf("got %v, want an error that names the burst", err)
	}
	if s, err := control.Get(t.Context()); err != nil || s.Revision != 1 {
		t.Errorf("got revision %d and %v, want 1: nothing was changed", s.Revision, err)
	}
}

// A block is 20 ms of what the algorithm gives, and not of what a burst that it
// doesn't pay for would leave.
func TestABlockIsOfTheAlgorithmsRate(t *testing.T) {
	t.Parallel()
	c := contract(300)
	for _, row := range []struct {
		a     Algorithm
		burst int64
		want  int64
	}{{algorithm(TokenBucket), 1, 6}, {algorithm(TokenBucket), 151, 3}, {algorithm(GCRA), 300, 6}, {algorithm(RedisCell), 300, 6}, {algorithm(SlidingWindowList), 1, 6}} {
		c.Burst = row.burst
		b := &reserver{kind: row.a, known: seededBy(row.a.Name, c)}
		if got := b.blockSize(); got != row.want {
			t.Errorf("%s with a burst of %d: got %d, want %d", row.a.Name, row.burst, got, row.want)
		}
	}
}
