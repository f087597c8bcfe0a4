// Package control is the operators' side of a limit: to read and change its settings,
// to undo changes, to see their history and the nodes that know them, and to delete a
// limit. It reserves nothing, and imports no limiter.
//
// Settings live in Redis. [Control.Set] reads them, applies a [Change], checks the
// result, and replaces them if they are still those that it read; else it begins
// again. A change with For is an override: the terms return by themselves, and the next
// node that polls makes that change.
//
// Guardrails and the share of the cap that terms leave bound a change, unless it is
// forced. [Control.Undo] goes one change back with each call. It skips the choices of
// the fleet. [Control.Await] waits until each node knows the settings.
//
// The package starts no goroutine. Each method is a few calls of Redis, which the
// caller's context bounds.
package control
