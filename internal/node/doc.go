// Package node puts a node together and is the way of one job through it.
//
//	consumer ─► line ─► worker ─► sender (permit) ─► policy ─► consumer
//
// The line is one goroutine. While jobs are ready it waits for slots; shortly
// before a slot's time it takes the job that is best then and hands both to a
// worker. A worker makes the call, asks the policy what the result means, and
// settles the job or has it sleep in the consumer until its next call (retry.go).
// Jobs wait in the consumer, not in workers: hundreds of goroutines that each wait
// for a slot would start in an order of their own, and the span of open offsets
// would grow with it.
//
// With a dedup store a worker claims the job before its call is written, and it
// is settled once Redis knows what became of the call (dedup.go).
//
// It does not speak Kafka, Redis or HTTP; the rooms do.
//
// Goroutines: [Node.Run] starts the booking goroutine, the line, the workers,
// the dedup store's, the watchdog, the admin server and the consumer, and
// returns when all have ended. The consumer ends first, after its drain and last
// commit; its word of ready jobs closes, so the line ends, then the workers;
// then what they used is closed.
//
// Failure: a provider that is down opens the breaker; jobs wait in the line and
// a probe goes now and then. A failure is held against the job or against the
// provider (evidence.go), so an outage dead-letters no failure, and a wall of
// jobs that can't succeed stops nothing: samples from behind it clear the
// provider. A call without an answer goes by on_unknown. A node that can't work
// while others can gives its partitions up until it can (watchdog.go).
package node
