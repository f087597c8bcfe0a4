package throttle

import (
	"errors"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/internal/fault"
	"dispatcher/throttle/control"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// An operator can't ask of a limit what its algorithm can't honour.
func TestAChangeIsRefusedThatTheAlgorithmCanNotKeep(t *testing.T) {
	t.Parallel()
	rdb := patient(t, miniredis.RunT(t).Addr())
	a := algorithm(limit.SlidingWindowLog)
	known := seededBy(a.Name, contract(300))
	if _, err := script.NewScripts(rdb, "ns", "provider", "n").Reserve(t.Context(), script.Ask{Seq: 1, Identity: string(IdentityNone), Known: known}); err != nil {
		t.Fatal(err)
	}
	operator, err := control.NewControl(rdb, "ns", "provider")
	if err != nil {
		t.Fatal(err)
	}
	_, err = operator.Set(t.Context(), control.Change{Values: parameters.Values{"burst": "20"}, By: "test"})
	var fault *fault.Error
	if !errors.As(err, &fault) || fault.Field != "burst" {
		t.Errorf("got %v, want an error that names the burst", err)
	}
	if s, err := operator.Get(t.Context()); err != nil || s.Revision != 1 {
		t.Errorf("got revision %d and %v, want 1: nothing was changed", s.Revision, err)
	}
}

// A block is 20 ms of what the algorithm gives, and not of what a burst that it
// doesn't pay for would leave.
func TestABlockIsOfTheAlgorithmsRate(t *testing.T) {
	t.Parallel()
	c := contract(300)
	for _, row := range []struct {
		a     limit.Algorithm
		burst int64
		want  int64
	}{{algorithm(limit.TokenBucket), 1, 6}, {algorithm(limit.TokenBucket), 151, 3}, {algorithm(limit.GCRA), 300, 6}, {algorithm(limit.RedisCell), 300, 6}, {algorithm(limit.SlidingWindowList), 1, 6}} {
		c.Burst = row.burst
		b := &reserver{Limiter: &Limiter{}, kind: row.a, known: seededBy(row.a.Name, c)}
		if got := b.blockSize(); got != row.want {
			t.Errorf("%s with a burst of %d: got %d, want %d", row.a.Name, row.burst, got, row.want)
		}
	}
}
