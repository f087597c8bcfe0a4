// Package pacer admits the jobs of one node: it takes the best ones from the consumer, has the
// limiter reserve a slot for each, and hands each to a worker shortly before its slot.
//
//	breaker ─► connection ─► turn ─► take the jobs ─► reserve ─► wait ─► worker
//
// When a connection is ready (connect.go) and the limiter has a turn for the node, the pacer takes the jobs
// and reserves their slots (pacer.go). Jobs without a slot go back. The others wait until their
// slots are near (handout.go).
//
// Jobs wait in the consumer, not in workers. If hundreds of workers each waited for a
// slot, their jobs would start in no order, and many offsets would stay open. The pacer
// holds the jobs whose slots are reserved: those of the next 10 to 30 ms or, where the fleet
// has reserved the timeline up to its horizon, those of 200 ms.
//
// The pacer makes no call and settles no job. A job that it must not admit, because an operator's
// rule cancels it or because it wants what can't be granted, goes to a worker with the reason.
//
// Goroutines: [Pacer.Run] admits on that of its caller, and starts one that hands the jobs out. It
// returns when both have ended.
//
// Failure: when the provider is down the breaker opens and the pacer waits. It lets a probe go
// now and then. A connection that could not be opened goes to a worker with a job, so that the
// breaker counts the outage.
//
// # Reasons
//
// Where workers claim jobs in the dedup store, the pacer hands each out 4 to 10 ms before its slot:
// the higher the rate, the later. At most 64 items are unwritten, so a node with
// the store begins at most 16,000 calls a second. A job that may not be called has taken a slot,
// which is lost. To ask before a slot is reserved would save it, and cost every job a call to
// Redis of its own.
package pacer
