package status

import "time"

// Lane is one lane on this node, in order of priority.
type Lane struct {
	Lane     string
	InFlight int   // jobs handed out; not settled, or a worker still has them
	Ready    int   // jobs that only wait for a slot
	Waiting  int64 // records of its topics that are not complete, less those in flight and asleep
	Asleep   int   // jobs that wait in memory for their time, their next call, a limit or a rule
	Behind   int   // jobs that wait in memory behind another job of their key, in partition order of their partition
	Delayed  int64 // records of its retry topics that are not complete, less those in flight and asleep
	// Oldest is how long the oldest job has been waiting or in flight on this node, since
	// it was written or since it was due; 0: none waits.
	Oldest time.Duration
	// Rate is how many jobs a second had their offsets completed, lately.
	Rate float64
}

// Drain is the time in seconds until all that waits or is in flight would be settled at the
// present rate; +Inf where nothing is settled at present.
func (l Lane) Drain() float64 {
	left := float64(l.Waiting) + float64(l.InFlight)
	if left == 0 {
		return 0
	}
	return left / l.Rate
}

// Partition is one partition that this node works.
type Partition struct {
	Topic     string
	Lane      string
	Partition int
	Committed int64 // -1: nothing yet
	Lag       int64 // last stable offset less the committed one
	Open      int   // offsets admitted and not complete; what is in the fetch buffer does not count
}
