// Package limit says what a limit is: the contract with the provider, the algorithm
// that keeps it, its guardrails, and all of it as settings with a revision. It is
// arithmetic and rules alone: no Redis, no clock, no goroutine.
//
// # Contract
//
// A [Contract] is at most Cap units in any Window. Its tags are the keys of the
// configuration and of the settings in Redis, so a setting has one
// field, its check in [Contract.Validate], its row in package parameters, and its default in
// configs/default.yaml. Lua reads a field by its JSON name where an algorithm needs it.
//
// # Algorithms
//
// One table in algorithms.go names each algorithm with its script, its promise, its
// worst window, the share of the cap that it uses, and for how long a unit counts.
//
// # Settings
//
// [Settings] live in Redis as one packed value, which [Settings.Pack] writes and
// [Unpack] reads. Scripts compare it as a string. An override carries the packed
// settings that follow it. A [Spec] is a limit as a file states it, and seeds them.
//
// # Gates
//
// A gate is a limit after the first. [Terms] say whether a limit is one. The table of
// package parameters says which settings a gate has; [Terms.Beside] takes the rest from the
// first limit. Package quota says when the windows of a gate begin that is a counter.
//
// # Failure
//
// Settings that can't be kept are refused with a fault for each field. A packed value
// of another version, or one that can't be read, is an error and never a limit.
package limit
