package clock

import (
	"math/bits"
	"time"
)

// Schedule is a run of slots as reserve.lua granted them, on Redis's clock in µs.
// The script reserves by the same formula; both are exact in integers.
type Schedule struct {
	Given         int64
	Base, N       int64
	Floor         int64
	Units, Period int64
	Debt          int64
}

// At is slot j, from 0 to given − 1.
func (s Schedule) At(j int64) int64 {
	return max(s.Floor, s.Base+After(s.N+j-s.Debt, s.Units, s.Period))
}

// Far bounds what After and Within return: 142 years in µs. A time plus this
// stays below 2^53.
const Far = 1 << 52

// After is ⌈count · period / units⌉: the time in which count units pass, in
// µs, as pace.lua computes it. It is bounded by far on both sides.
func After(count, units, period int64) int64 { return -mulDiv(-count, period, units) }

// Within is ⌊us · units / period⌋: how many units pass in us, bounded likewise.
func Within(us, units, period int64) int64 { return mulDiv(us, units, period) }

// mulDiv is ⌊a · b / c⌋ for b ≥ 0 and c > 0, bounded by far on both sides. The
// product may have 128 bits.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(magnitude(a), uint64(b)) //nolint:gosec // not negative
	q, rest := uint64(Far), uint64(0)
	if hi < uint64(c) { //nolint:gosec // positive
		q, rest = bits.Div64(hi, lo, uint64(c)) //nolint:gosec // positive
	}
	if a < 0 && rest > 0 {
		q++
	}
	q = min(q, Far)
	if a < 0 {
		return -int64(q) //nolint:gosec // at most far
	}
	return int64(q) //nolint:gosec // at most far
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return uint64(-a) //nolint:gosec // not negative
	}
	return uint64(a)
}

// Duration is a number of µs.
func Duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
