// Package slots is what a job asks for, the slot that it gets, and what the slot counts
// afterwards.
//
// A [Slot] is permission to begin one call at a stated time. It ends with that time, or
// before it where the node gives its slots up, or where the host was suspended meanwhile:
// [Validity] knows that.
//
// A slot of Redis has a [Charge]: its job, on all limits. A [Correction] changes that,
// where the job was not called, or where the provider counted otherwise. Until the next
// call to Redis passes them on, [Corrections] keeps them.
//
// The package asks nobody for slots and starts no goroutine. Only [Slot.Wait] and
// [Slot.WaitNear] wait. Callers on any goroutine add corrections; the reserving goroutine
// of package throttle takes them.
package slots
