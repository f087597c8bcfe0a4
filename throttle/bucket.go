package throttle

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// WhenFull says what becomes of a caller for whom a leaky bucket has no room.
type WhenFull string

// The choices.
const (
	FullWait   WhenFull = "wait"   // it waits for its turn
	FullRefuse WhenFull = "refuse" // it gets [ErrFull]
)

// ErrFull says that the bucket had no room, and that callers are not to wait.
var ErrFull = errors.New("the bucket is full")

// Bucket is how much a leaky bucket holds, and what follows when it is full.
type Bucket struct {
	Capacity int64    // units that wait in it, at most; 0: as many as the horizon holds
	WhenFull WhenFull // default FullWait
}

// refuses reports whether callers are turned away.
func (b Bucket) refuses() bool { return b.WhenFull == FullRefuse }

// reach is how far ahead the last unit of a full bucket lies; 0: the horizon
// alone says. After a change of the rate it stays within what can be booked.
func (b Bucket) reach(c Contract) time.Duration {
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

// CheckBucket joins a [FieldError] for each setting of a bucket that does not go
// with the algorithm or the contract.
func CheckBucket(b Bucket, algorithm string, c Contract) error {
	var faults []error
	refuse := func(bad bool, field string, value any, why string) {
		if bad {
			faults = append(faults, &FieldError{Field: field, Value: value, Why: why})
		}
	}
	leaky := algorithm == leakyBucket().Name
	known := b.WhenFull == "" || b.WhenFull == FullWait || b.WhenFull == FullRefuse
	refuse(!known, "when_full", string(b.WhenFull), "must be wait or refuse")
	refuse(!leaky && b.refuses(), "when_full", string(b.WhenFull), "is for algorithm leaky_bucket only")
	refuse(!leaky && b.Capacity != 0, "capacity", b.Capacity, "is for algorithm leaky_bucket only")
	refuse(b.Capacity < 0 || b.Capacity > MaxCap, "capacity", b.Capacity, fmt.Sprintf("must be from 0 to %d", MaxCap))
	if leaky && b.Capacity > 0 && len(faults) == 0 && c.Validate() == nil {
		holds := b.holds(c)
		refuse(holds > c.Horizon, "capacity", b.Capacity,
			fmt.Sprintf("takes %s to run empty, and slots are booked no further ahead than the horizon of %s", holds, c.Horizon))
		refuse(holds < MinHorizon, "capacity", b.Capacity,
			fmt.Sprintf("runs empty in %s, and nodes need %s to book: must be at least %d at this rate", holds, MinHorizon, b.least(c)))
	}
	return errors.Join(faults...)
}

// least is the smallest capacity that nodes can keep filled.
func (Bucket) least(c Contract) int64 {
	units, period := c.Pace()
	return ceilDiv(MinHorizon.Microseconds()*units, period)
}
