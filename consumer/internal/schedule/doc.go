// Package schedule decides which of the fetched jobs a worker gets next. It holds
// everything that one lock guards: buffers, key queues, lanes, timers, the state of each
// delivery, and the offset trackers. So "is this assignment over?" and "complete this
// offset" are one step.
//
// # What it does not do
//
// It speaks no Kafka. It gets batches from fetch, tells group what to commit, and leaves
// to a [Settler] what has to be written before a job is settled.
//
// # How it works
//
//	Add ─► buffer ─► admitted ─► due? ─► key free? ─► ready ─► Take ─► settled
//	                             │          └► behind the job of its key that goes first
//	                             └► asleep until its time, or rejected to a retry topic
//
// Three events make the next jobs ready: a batch comes, a job is settled, a timer ends.
// Each of them calls [Scheduler.fill], which takes one job a partition in turn while the
// lane has room. Nothing is pushed to workers: [Scheduler.Take] gives the job that is best
// at that moment, so an urgent job that comes late waits behind none that is only ready.
//
// A delivery has one state; state.go lists the states and what moves a delivery from one
// to another. settle.go has all ways out.
//
// # Who owns which goroutine
//
// The package starts none. [Scheduler.KeepTime] runs in one that its caller starts. All
// methods may be called from any goroutine. The lock is never held across a wait.
package schedule
