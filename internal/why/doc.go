// Package why asks the nodes of a fleet what a job or a limit waits for.
//
//	command ──question──► channel dispatcher:{namespace}:why ──► every node
//	command ◄──answer──── channel dispatcher:{namespace}:why:<id of the question> ◄── every node
//
// Only the node that holds a job knows what it waits for, and nobody but Redis knows which
// node that is. So a question goes to all nodes by PUBLISH, and each of them answers, also
// that it does not hold the job. Nothing is stored in Redis.
//
// # What it does not do
//
// It does not know what jobs wait for: [Options.Answer] does. It does not know how many nodes
// there are: the caller of [Ask] does.
//
// # Who owns which goroutine
//
// [Service.Run] answers on its caller's goroutine. While it runs, and while [Ask] does, go-redis
// has two goroutines for the subscription.
//
// # Failure
//
// A node that can't reach Redis does not answer, and [Ask] returns without its answer. What is
// no question, or no answer, is ignored. A node answers twenty questions a second at most, and
// looks at no question of more than 4 KiB. An answer names twenty jobs at most, and holds no payload.
package why
