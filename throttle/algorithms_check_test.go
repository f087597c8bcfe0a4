package throttle

import (
	"errors"
	"testing"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/throttle/limit"
)

// What an algorithm can't honour is refused, with the setting's name.
func TestAnAlgorithmRefusesWhatItCannotHonour(t *testing.T) {
	t.Parallel()
	burst := func(c *limit.Contract) { c.Burst = 2 }
	for _, tc := range []struct {
		algorithm string
		edit      func(*limit.Contract)
		field     string
	}{
		{"leaky_bucket", burst, "burst"},
		{"fixed_window", burst, "burst"},
		{"sliding_window_counter", burst, "burst"},
		{"sliding_window_log", burst, "burst"},
		{"sliding_window_list", burst, "burst"},
		{"sliding_window_log", func(c *limit.Contract) { c.Cap = 1_000_001 }, "cap"},
		{"sliding_window_list", func(c *limit.Contract) { c.Cap = 1_000_001 }, "cap"},
		{"redis_cell", func(c *limit.Contract) { c.Window = 1500 * time.Millisecond }, "window"},
	} {
		t.Run(tc.algorithm+" "+tc.field, func(t *testing.T) {
			t.Parallel()
			c := contract(300)
			if err := (limit.Terms{Contract: c, Algorithm: tc.algorithm}).Validate(); err != nil {
				t.Fatalf("the contract to begin with: %v", err)
			}
			tc.edit(&c)
			err := limit.Terms{Contract: c, Algorithm: tc.algorithm}.Validate()
			var field *fault.Error
			if !errors.As(err, &field) || field.Field != tc.field {
				t.Errorf("got %v, want a refusal of %s", err, tc.field)
			}
		})
	}
}

// What is promised is in proportion: who is strict promises the cap, and nobody
// less than that or more than about twice.
func TestPromisesAreInProportion(t *testing.T) {
	t.Parallel()
	for _, a := range limit.Algorithms() {
		for _, n := range []int64{1, 2, 300} {
			c := contract(n)
			worst, share := a.Worst(c), a.Share(c)
			if a.Strict != (worst == c.Cap) && n > 2 || worst < c.Cap || worst > 2*c.Cap+1 {
				t.Errorf("%s: strict is %v, and the worst of a cap of %d is %d", a.Name, a.Strict, n, worst)
			}
			if share <= 0.4 || share > 1 || a.Cooldown(c) <= 0 || a.Promise == "" {
				t.Errorf("%s: got a share of %v, a cooldown of %v, promises %q", a.Name, share, a.Cooldown(c), a.Promise)
			}
		}
	}
}
