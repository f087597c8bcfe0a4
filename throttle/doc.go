// Package throttle makes all nodes of a fleet keep one limit together: at most
// so many units in any window, wherever it begins. Package limit says what a limit
// is, and lists the algorithms; this text describes the default one. With the scope
// node each node keeps the limit for itself, without Redis.
//
// A [Limiter] reserves slots. The slots of a limit lie on one timeline in Redis, at
// the contract's spacing. A node reserves the next few of them for jobs that wait
// already, at most one horizon ahead, and each job gets a time of its own. So the
// number of calls to Redis does not depend on the rate.
//
//	for {
//		room, err := limiter.Turn(ctx, lanes, more) // waits until a call is worth it
//		jobs := …                                   // the best of now, while there is room
//		answers, err := limiter.Reserve(ctx, jobs)  // one call: each job gets a slot or nothing
//	}
//
// A job with a slot waits with [Slot.Wait] until its call may begin. A job without one
// waits for the next turn. One that missed its slot gets another with [Limiter.Again],
// ahead of all others. [Limiter.Used], [Limiter.Missed] or [Limiter.Unused] says what
// became of the slot. Operators use package control.
//
// # Time
//
// Only Redis's clock counts. A node maps a slot to its own monotonic clock as a
// not-before and a not-after. Whatever the true offset is, no call begins before its
// slot or more than the lateness after it. A slot that can't be used in time is
// dropped: late calls are what breaks a cap.
//
// # What it does not do
//
// It makes no calls and knows no jobs. It does not see the arrivals at the provider:
// the guard has to cover how much the ways there differ. Without Redis callers wait,
// unless the contract has a reserve, which Redis never gives out. Then the node uses
// its lease of the reserve until the lease ends.
//
// # Failure
//
// A timeline that was lost, or may have been (the key or the settings are gone, or older than a node's; another master;
// a stepped clock; another algorithm), begins again after a cooldown: until all slots that may have been
// reserved are over, nothing is granted. Settings live in Redis. Each node remembers
// the newest that it has seen, and restores them in a Redis that lost them. A call
// whose reply was lost is repeated under the same number and returns the same slots. Where the
// script chose the jobs, these slots are given up.
//
// # Goroutines
//
// [Limiter.Run] is one goroutine that talks to Redis; it owns the clock mapping and the
// state of reservations. [Limiter.Turn], [Limiter.Reserve] and [Limiter.Again] pass it a
// question and wait for the answer, so they have no state of their own. A second goroutine, which
// ends with Run, receives notifications of changes and wakes it.
package throttle
