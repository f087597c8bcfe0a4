// Package timers is a queue of items in the order of the times that they wait for.
//
// Each item gets to know its place whenever that changes. So the timer of an item can be read, and ended before its time, in O(log n)
// and without a search.
//
// # What it does not do
//
// It does not wait: its caller asks [Queue.Wait] how long to, and [Queue.Due] for what is due by then. It has no lock, starts no
// goroutine, and nothing in it fails.
package timers
