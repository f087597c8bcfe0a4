package limit

import (
	"cmp"
	"math"
	"time"

	"dispatcher/internal/fault"
)

// WhenFull is the treatment of a caller for whom a leaky bucket has no room.
type WhenFull string

// The choices.
const (
	FullWait   WhenFull = "wait"   // it waits
	FullRefuse WhenFull = "refuse" // it gets an error
)

// Bucket is how much a leaky bucket holds, and how it treats callers when it is full.
type Bucket struct {
	Capacity int64    `yaml:"capacity"`  // units that wait in it, at most; 0: as many as the horizon holds
	WhenFull WhenFull `yaml:"when_full"` // default FullWait
}

// Refuses reports whether callers are turned away.
func (b Bucket) Refuses() bool { return b.WhenFull == FullRefuse }

// Reach is how far ahead the last unit of a full bucket lies; 0: the horizon
// alone bounds it. After a change of the rate it stays within the horizon.
func (b Bucket) Reach(c Contract) time.Duration {
	if b.Capacity == 0 {
		return 0
	}
	return min(max(b.holds(c), MinHorizon), c.Horizon)
}

// holds is how long a full bucket takes to run empty.
func (b Bucket) holds(c Contract) time.Duration {
	units, period := c.Pace()
	return time.Duration(math.Ceil(float64(b.Capacity)*float64(period)/float64(units))) * time.Microsecond
}

// Validate refuses settings of a bucket that do not go with the algorithm or the
// contract, with a [fault.Error] for each.
func (b Bucket) Validate(algorithm string, c Contract) error {
	var faults fault.List
	leaky := algorithm == LeakyBucket
	faults.OneOf("when_full", string(cmp.Or(b.WhenFull, FullWait)), string(FullWait), string(FullRefuse))
	faults.Refuse(!leaky && b.Refuses(), "when_full", string(b.WhenFull), "is for algorithm leaky_bucket only")
	faults.Refuse(!leaky && b.Capacity != 0, "capacity", b.Capacity, "is for algorithm leaky_bucket only")
	faults.Refuse(b.Capacity < 0 || b.Capacity > MaxCap, "capacity", b.Capacity, "must be from 0 to %d", MaxCap)
	if leaky && b.Capacity > 0 && faults.Err() == nil && c.Validate() == nil {
		holds := b.holds(c)
		units, period := c.Pace()
		faults.Refuse(holds > c.Horizon, "capacity", b.Capacity,
			"takes %s to run empty, and slots are reserved no further ahead than the horizon of %s", holds, c.Horizon)
		faults.Refuse(holds < MinHorizon, "capacity", b.Capacity,
			"runs empty in %s, and nodes need %s to reserve: must be at least %d at this rate",
			holds, MinHorizon, ceilDiv(MinHorizon.Microseconds()*units, period))
	}
	return faults.Err()
}
