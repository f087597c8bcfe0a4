package boottime

import "time"

// Deadline is a time that a suspension of the host ends at once: it was reckoned before, and looks fresh afterwards,
// since Go's monotonic clock stood still meanwhile.
type Deadline struct {
	At        time.Time     // zero: there is no deadline
	Suspended time.Duration // what [Suspended] returned before At was reckoned
}

// differ is by how much two readings of a host that was not suspended differ at most.
const differ = time.Millisecond

// Over reports whether the deadline had passed at now, or whether the host was suspended since it was reckoned.
// suspended is [Suspended], which takes system calls, or [Last], which sees a suspension once somebody has read it.
func (d Deadline) Over(now time.Time, suspended func() time.Duration) bool {
	return !d.At.IsZero() && (now.After(d.At) || suspended()-d.Suspended > differ)
}

// And is the deadline that keeps both: the earlier time, and the earlier reckoning. Neither is zero.
func (d Deadline) And(other Deadline) Deadline {
	if other.At.Before(d.At) {
		d.At = other.At
	}
	d.Suspended = min(d.Suspended, other.Suspended)
	return d
}

// By is a deadline that is reckoned now.
func By(at time.Time) Deadline { return Deadline{At: at, Suspended: Suspended()} }
