package limit_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/throttle/limit"
)

// A burst that leaves too little is refused with the largest one that leaves enough: that one is accepted, and the next is not.
func TestARefusedBurstNamesTheLargestThatFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limitCap := rapid.Int64Range(2, 100_000).Draw(t, "cap")
		terms := limit.Terms{Contract: limit.Contract{
			Cap: limitCap, Window: time.Second, Horizon: 200 * time.Millisecond,
			Guard:   rapid.SampledFrom([]time.Duration{0, 10 * time.Millisecond, 137 * time.Millisecond, time.Second}).Draw(t, "guard"),
			Reserve: rapid.Int64Range(0, limitCap/2).Draw(t, "reserve"),
		}}
		terms.Burst = rapid.Int64Range(1, limitCap-terms.Reserve).Draw(t, "burst")
		with := func(burst int64) error {
			terms := terms
			terms.Burst = burst
			return terms.Waste()
		}
		err := terms.Waste()
		if err == nil {
			return
		}
		_, number, named := strings.Cut(err.Error(), "so at most ")
		if fits := with(1) == nil; named != fits {
			t.Fatalf("%v: a burst of 1 fits is %v, and the refusal is %q", terms.Contract, fits, err)
		}
		if !named {
			return
		}
		most, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if err := with(most); err != nil {
			t.Errorf("%v: the remedy of %d was refused: %v", terms.Contract, most, err)
		}
		if with(most+1) == nil {
			t.Errorf("%v: a burst of %d leaves enough, and %d was said to be the most", terms.Contract, most+1, most)
		}
	})
}
