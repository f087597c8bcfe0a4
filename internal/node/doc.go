// Package node puts one node together and takes each job through it.
//
//	consumer ─► pacer ─► worker ─► sender (permit) ─► decision ─► consumer
//
// One job's way: when a connection is ready and the limiter has a turn for the node, the
// pacer takes the best jobs and reserves a slot for each (pacer.go). Shortly before its
// slot, each job goes to a worker, with its connection. The worker makes the call
// (visit.go). One pure function decides what follows the result (decision.go), and the
// worker carries the decision out: it settles, dead-letters or releases the job, or has it
// wait for its next call (worker.go).
//
// Jobs wait in the consumer, not in workers. If hundreds of workers each waited for a
// slot, their jobs would start in no order, and many offsets would stay open. The pacer
// holds the jobs whose slots are reserved: those of the next 10 to 30 ms or, where the fleet
// has reserved the timeline up to its horizon, those of 200 ms.
//
// With a dedup store a worker claims the job before its call is written, and settles
// the job after Redis has recorded the result (dedup.go).
//
// The package does not speak Kafka, Redis or HTTP: consumer, throttle and sender do.
// Its subpackages know nothing of it: gates has jobs wait for the limits after the first,
// breaker keeps calls from a provider that is down and attributes failures, health takes a
// stalled node out of its groups, report shows operators what the provider answers.
//
// Goroutines: [Node.Run] starts those of the limiter, the admin server, the fleet
// membership, the provider's report, the dedup store and the health check; then the
// pacer's two, the workers and the consumer. It returns when all have ended. The consumer
// ends first, after its drain and last commit. That ends the pacer, and then the
// workers; the others end last.
//
// Failure: when the provider is down the breaker opens, the pacer waits, and a probe
// goes now and then. What an outage counts against a job: see package breaker. A call
// without an answer follows on_unknown. A node that can't work while others can leaves
// its groups.
//
// # Reasons
//
// What the worker says to the dedup store:
//
//	when                                              says          then
//	before the slot                                   claim         granted: the write begins before the slot's and the claim's end
//	accepted                                          done, 0       settled when Redis has it; the worker is free at once
//	dead letter after a call that was written         done, class   the worker waits for Redis, then writes result and letter
//	again: throttled, unavailable                     release       asleep, or to a retry topic
//	released                                          release       its offset stays open
//	again: unknown, with retry                        –             the same delivery claims again; another one waits for the end
//
// and what follows the store's answer:
//
//	sent, accepted   done, with the attempts known before and no status
//	sent, else       dead letter as it was, with its class and status
//	busy             polled each 250 ms, or when that call must be over, without a slot; holds its key and its place in flight
//	unknown          dead letter unknown, parked with park. Not recorded as done: should its node live after all, that is still to come
//	taken over       called
//
// A done that Redis has not taken half a drain after the job's context ended is tried once
// more, and the job is settled either way.
//
// The pacer hands jobs out 10 ms before their slots with the store, and never less than 4 ms,
// however high the rate. At most 64 work items are unwritten, so a node with the store begins
// at most 16,000 calls a second. A job that may not be called has taken a slot, which is
// lost. To ask before a slot is reserved would save it, and cost every job a call to Redis
// of its own.
//
// A job that is found expired before its claim becomes a dead letter without asking the
// store, also where it was sent before the crash.
package node
