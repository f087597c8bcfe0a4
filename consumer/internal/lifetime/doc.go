// Package lifetime has the contexts that end with an assignment, in the order in which they end:
//
//	[Lifetime.Context]  when the assignment ends, with a cause: no more job is handed out, and the drain begins
//	[Lifetime.Calls]    soon after, with the same cause: until then jobs that have a slot are called
//	[Lifetime.Writes]   at half of the drain, counted from the last of these calls: a record is given up unless it may have been written
//	[Lifetime.Over]     when the drain has ended: no outcome of a record counts any more
//
// So a worker can ask why a job was taken away, and a record that is being written is awaited longer than a job that only waits.
//
// # What it does not do
//
// It does not wait for jobs, and does not complete or commit an offset: package schedule knows whether an assignment is over, under
// its lock. Package group ends the contexts at their times. A lifetime has no lock and starts no goroutine; its methods may be called
// from any.
package lifetime
