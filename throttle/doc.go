// Package throttle makes all nodes of a fleet keep one limit together: at most
// so many units in any window, wherever it begins. [Algorithms] lists the ways to
// keep one; what follows is the default. With [ScopeNode] each node keeps the
// limit for itself, without Redis.
//
// It hands out slots, not permission. The slots of a limit lie on one timeline
// in Redis, at the contract's spacing; a node reserves the next few of them for
// callers that wait already, at most one horizon ahead, and each caller gets a
// time of its own. Nobody polls, and the number of calls to Redis does not
// depend on the rate.
//
// Most callers use [Limiter.Next] and [Slot.Wait]; a caller that found its slot
// late uses [Limiter.Again], and keeps its place. Operators use [Control].
//
// # Time
//
// Only Redis's clock counts. A node maps a slot to its own monotonic clock as a
// not-before and a not-after, so that whatever the true offset is, no call
// begins before its slot or more than the lateness after it. A slot that can't
// be used in time is dropped: late calls are what breaks a cap.
//
// # What it does not do
//
// It makes no calls and knows no jobs. It does not watch what the provider
// sees: the guard has to cover by how much the ways there differ. Without Redis
// callers wait, unless the contract has a reserve: then the node has a share of
// it on lease, which Redis never gives out, and lives on that until the lease
// ends.
//
// # Failure
//
// A timeline that was lost, or may have been (the key is gone, another master,
// a stepped clock), begins anew behind a cooldown: after all that may have been
// reserved is over. Settings live in Redis; each node remembers the newest that it
// has seen, and brings them back to a Redis that lost them. A lost reply is
// asked for again under the same number and brings the same slots.
//
// # Goroutines
//
// [Limiter.Run] is one goroutine that reserves; it owns the clock mapping and the
// state of reservation. A second one, which ends with it, hears of changes and wakes
// it. Callers wait in their own goroutines. [line] is where callers and slots
// meet, under one mutex that is never held while anything waits.
package throttle
