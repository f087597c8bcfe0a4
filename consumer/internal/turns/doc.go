// Package turns is a queue in which tenants take turns, by their weights.
//
// It is stride scheduling (Waldspurger and Weihl, Stride Scheduling: Deterministic
// Proportional-Share Resource Management, 1995): each tenant has a pass, the one with the least
// pass goes next, and its pass grows by what it got, divided by its weight. While two tenants have
// items, what they got by their weights differs by their largest items at most. A tenant that
// comes begins at the pass of the one that went last, so it has saved nothing up. What it got before counts, while that is
// ahead of the others. So one that has a single item at a time gets what its weight says, too.
//
// With a single tenant the queue goes in order, but for items that come again: they and the fresh ones go in turn.
//
// # What it does not do
//
// It knows no jobs, no partitions and no time. It bounds nothing: its caller does. It has no lock,
// starts no goroutine, and nothing in it fails.
package turns
