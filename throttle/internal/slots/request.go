package slots

import (
	"cmp"

	"dispatcher/throttle/limit"
)

// Request is a job that wants a slot.
type Request struct {
	Lane   int      // of the job; 0 where jobs have none
	Cost   int64    // units that it counts; 0: 1
	Passes []Passed // the gates that it passes, each once
}

// Counts is how many units the job counts on a gate.
func (q Request) Counts(p Passed) int64 { return max(1, cmp.Or(p.Units, q.Cost)) }

// Passed is a gate that a job passes.
type Passed struct {
	Value

	Units int64 // that the job counts there; 0: as many as on the first limit
}

// Value names a gate, and a value of its key.
type Value struct {
	Gate int // index of the limiter's gates
	Hash limit.Hash
}
