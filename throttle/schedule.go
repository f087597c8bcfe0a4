package throttle

// schedule is a run of slots as book.lua gave them, on Redis's clock in µs.
// The script books by the same formula; both are exact in integers.
type schedule struct {
	given         int64
	base, n       int64
	floor         int64
	units, period int64
	debt          int64
}

// at is slot j, from 0 to given − 1.
func (s schedule) at(j int64) int64 {
	return max(s.floor, s.base+ceilDiv((s.n+j-s.debt)*s.period, s.units))
}

// ceilDiv is ⌈a/b⌉ for b > 0, for negative a as well.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}
