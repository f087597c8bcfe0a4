// Package schedule decides which of the fetched jobs a worker gets next. It holds
// everything that one lock guards: buffers, key queues, lanes, timers, the state of each
// delivery, and the offset trackers. So "is this assignment over?" and "complete this
// offset" are one step.
//
// # What it does not do
//
// It does not talk to Kafka. It gets batches from package fetch, and package group commits
// its offsets. A [Settler] writes the records that have to be in Kafka before a job is
// settled.
//
// # How it works
//
//	Add ─► buffer ─► admitted ─► due? ─► key free? ─► ready ─► Take ─► settled
//	                             │          └► behind the job of its key that goes first
//	                             └► asleep until its time, or rejected to a retry topic
//
// A batch that comes, a job that is settled and a timer that ends make the next jobs ready.
// Each of them calls fill, which takes one job a partition in turn while the lane has room.
// No job is pushed to a worker: [Scheduler.Take] returns the job that is best at that moment,
// so an urgent job that comes late waits behind no job that is only ready.
//
// A delivery has one state; state.go lists the states and the events that change them.
// In settle.go and sleep.go are the calls by which a worker gives a job away, in reject.go the
// jobs that no worker gets.
//
// # Who owns which goroutine
//
// The package starts none. [Scheduler.KeepTime] runs in one that its caller starts. All
// methods may be called from any goroutine. The lock is never held across a wait.
//
// # Failure
//
// The package does no I/O, so nothing fails. A record that can't be written leaves its
// offset open.
package schedule
