package throttle

import (
	"errors"
	"math"
	"strings"
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

// A waste names its cause: the algorithm, if the contract alone would leave enough.
func TestAWasteNamesItsCause(t *testing.T) {
	t.Parallel()
	long, kept, both, few := contract(300), contract(1000), contract(300), contract(20)
	long.Guard = 2 * long.Window
	kept.Reserve = 600
	both.Reserve, both.Burst = 200, 2
	few.Reserve = 9
	for want, terms := range map[string]limit.Terms{
		`algorithm: "sliding_window_counter": uses 0.495 of a cap of 1; at least 0.5 is to be used: choose another algorithm`: {Contract: contract(1), Algorithm: limit.SlidingWindowCounter},
		"guard: 2s: leaves 0.333 of the cap: it is too long for a window of 1s":                                               {Contract: long, Algorithm: limit.TokenBucket},
		"reserve: 600: leaves 0.396 of the cap":                                                                               {Contract: kept, Algorithm: limit.TokenBucket},
		"reserve: 200: leaves 0.326 of the cap; at least 0.5 is to be left":                                                   {Contract: both, Algorithm: limit.TokenBucket},
		"reserve: 9: leaves 0.495 of the cap with sliding_window_counter; at least 0.5 is to be left: reserve less":           {Contract: few, Algorithm: limit.SlidingWindowCounter},
	} {
		if err := terms.Waste(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// What is promised is in proportion: who is strict promises the cap or less, and
// nobody promises more than about twice the cap.
func TestPromisesAreInProportion(t *testing.T) {
	t.Parallel()
	for _, a := range limit.Algorithms() {
		for _, n := range []int64{1, 2, 300} {
			c := contract(n)
			worst, share := a.Worst(c), a.Share(c)
			least, most := int64(1), c.Cap
			if !a.Strict {
				least, most = c.Cap, 2*c.Cap+1
				if n > 2 {
					least++
				}
			}
			if worst < least || worst > most {
				t.Errorf("%s: with Strict %v the worst window of a cap of %d is %d, want from %d to %d", a.Name, a.Strict, n, worst, least, most)
			}
			if share <= 0.4 || share > 1 || a.Cooldown(c) <= 0 || a.Promise == "" {
				t.Errorf("%s: got a share of %v, want above 0.4 and at most 1; a cooldown of %v, want above 0; a promise of %q, want some text",
					a.Name, share, a.Cooldown(c), a.Promise)
			}
			if err := (limit.Terms{Contract: c, Algorithm: a.Name}).Waste(); err != nil && n > 2 {
				t.Errorf("%s: no file may state a cap of %d: %v", a.Name, n, err)
			}
			paced := c.Window.Seconds() / a.Spacing(c).Seconds() / float64(n)
			if a.Ahead && math.Abs(paced-share) > 1e-6 {
				t.Errorf("%s: the Pace of a cap of %d uses %.6f of it, and the Share says %.6f; with Ahead they must agree", a.Name, n, paced, share)
			}
		}
	}
}
