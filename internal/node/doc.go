// Package node puts one node together: the stages, what takes each job through them, and what
// the node says of itself.
//
//	consumer ─► pacer ─► worker ─► sender (permit) ─► decision ─► consumer
//
// Its subpackages pacer and worker take a job from the consumer to its call and to what follows.
// They know nothing of this package, and neither do the others: gates has jobs wait for the
// limits after the first, breaker keeps calls from a provider that is down and attributes
// failures, health takes a stalled node out of its groups, report shows operators what the
// provider answers. Only reach uses this package, to connect as a node does.
//
// Here is the assembly (node.go), the way from the configuration to the packages' own options
// (options.go, credentials.go), and what operators ask: what jobs wait for (why.go), what the
// node publishes of itself (figures.go), and what its set-up lacks (setup.go).
//
// The package does not speak Kafka, Redis or HTTP: consumer, throttle and sender do. No job
// passes through its code.
//
// Goroutines: [Node.Run] starts those of the limiter, the admin server, the services (fleet
// membership, answers to why, figures, rules, redrives, the provider's report, the health check, the check of the
// set-up) and the dedup store; then the pacer (which starts one more), the workers and the consumer. It returns when all have ended. Redrives and the
// check of the set-up end as the drain begins. Then the consumer ends, after its drain and last commit. That ends the
// pacer, and then the workers; the others end last.
//
// Failure: a node that can't work while others can leaves its groups. What an outage of the
// provider does: see packages pacer and breaker. What follows a call without an answer: see
// package worker.
package node
