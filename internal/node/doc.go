// Package node puts one node together and takes each job through it.
//
//	consumer ─► pacer ─► worker ─► sender (permit) ─► decision ─► consumer
//
// One job's way: the pacer waits for a connection and reserves a slot (pacer.go).
// Shortly before the slot's time it takes the best job, and hands all three to a
// worker. The worker makes the call (attempt.go). One pure function decides what
// follows the result (decision.go), and the worker carries the decision out: it
// settles, dead-letters or releases the job, or has it wait for its next call
// (worker.go).
//
// Jobs wait in the consumer, not in workers. If hundreds of workers each waited for a
// slot, their jobs would start in no order, and many offsets would stay open.
//
// With a dedup store a worker claims the job before its call is written, and settles
// the job after Redis has recorded the result (dedup.go).
//
// The package does not speak Kafka, Redis or HTTP: consumer, throttle and sender do.
// Its subpackages know nothing of it: breaker keeps calls from a provider that is
// down and attributes failures, health takes a stalled node out of its groups, report
// shows operators what the provider answers.
//
// Goroutines: [Node.Run] starts those of the limiter, the admin server, the fleet
// membership, the provider's report, the dedup store and the health check; then the
// pacer, the workers and the consumer. It returns when all have ended. The consumer
// ends first, after its drain and last commit. That ends the pacer, and then the
// workers; the others end last.
//
// Failure: when the provider is down the breaker opens, the pacer waits, and a probe
// goes now and then. An outage uses up no job's attempts. A call without an answer
// follows on_unknown. A node that can't work while others can leaves its groups.
package node
