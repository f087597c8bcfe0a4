package throttle

import (
	"errors"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// An operator can't ask of a limit what its algorithm can't honour.
func TestAChangeIsRefusedThatTheAlgorithmCanNotKeep(t *testing.T) {
	t.Parallel()
	rdb := patient(t, miniredis.RunT(t).Addr())
	a := slidingWindowLog()
	known := seeded(a.Name, contract(300), Rails{})
	if _, err := newScripts(rdb, "ns", "provider", "n").runBook(t.Context(), ask{seq: 1, identity: IdentityNone, known: known}); err != nil {
		t.Fatal(err)
	}
	control, err := NewControl(rdb, "ns", "provider")
	if err != nil {
		t.Fatal(err)
	}
	burst := int64(20)
	_, err = control.Set(t.Context(), Change{Burst: &burst, By: "test"})
	var fault *FieldError
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
	}{{tokenBucket(), 1, 6}, {tokenBucket(), 151, 3}, {gcra(), 300, 6}, {redisCell(), 300, 6}, {slidingWindowList(), 1, 6}} {
		c.Burst = row.burst
		b := &booker{kind: row.a, known: seeded(row.a.Name, c, Rails{})}
		if got := b.blockSize(); got != row.want {
			t.Errorf("%s with a burst of %d: got %d, want %d", row.a.Name, row.burst, got, row.want)
		}
	}
}
