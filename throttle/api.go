package throttle

import (
	"dispatcher/throttle/internal/gates"
	"dispatcher/throttle/internal/inquiry"
	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/limit"
)

// The types of the packages below that are part of this package's API.
type (
	// Slot is the permission to begin one call, at a time of its own. The times carry the
	// node's monotonic clock and are not to be sent to another process.
	Slot = slots.Slot
	// Request is a job that wants a slot.
	Request = slots.Request
	// Passed is a gate that a job passes.
	Passed = slots.Passed
	// Gate is one more limit that a job counts on, after the first. It seeds Redis, as
	// [limit.Terms.Beside] says. Where it has no key, all jobs have the value of [HashOf] of "".
	Gate = gates.Gate
	// Value names a gate by its index of [Options].Gates, and a value of its key.
	Value = slots.Value
	// Hash stands for the value of a gate's key. Equal values of two gates have nothing to do with
	// each other.
	Hash = limit.Hash
)

var (
	// ErrGivenUp says that a slot was given up, or that there is no other one for long: the
	// limit was cut or paused, or has lost its timeline, or Redis does not answer. The job waits where it came from.
	ErrGivenUp = slots.ErrGivenUp
	// ErrMore says that jobs have come into another lane while a turn was awaited: it is to be asked
	// for again.
	ErrMore = inquiry.ErrMore
	// ErrLate says that a slot's time is over: the call must not be made with it.
	ErrLate = slots.ErrLate
)

// HashOf hashes a value.
func HashOf(value string) Hash { return limit.HashOf(value) }
