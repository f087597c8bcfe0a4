// Package breaker is the circuit breaker of one node: it keeps calls from a
// provider that is down.
//
// It opens after a number of failed calls in a row that are not attributed to their
// jobs, unless an answer came within the last quarter of the probe interval. While it is open it lets one call through at a time, as a probe, until one
// of them is answered.
//
// Attribution decides whether a failed call counts against its job or against the
// provider (attribution.go). A failure that counts against its job uses up one of
// the job's attempts and does not open the breaker. So an outage dead-letters no
// job, but for jobs that failed before, while no other is called; and a backlog
// of jobs that can't succeed does not stop the others. Where calls
// fail, the node also calls samples: jobs that have not failed yet, from anywhere in
// the backlog. An answer to one of them shows that the provider is up.
//
// A call of which nothing was written, as where no connection could be opened, counts against
// the provider alone.
//
// Each node decides from its own calls. Nothing is shared through Redis. After a
// restart the breaker is closed, and no call was answered yet.
//
// The package has no goroutine. All methods of [Breaker] may be called from any
// goroutine; a [Record] belongs to the worker that holds the job.
//
// # Reasons
//
// What an outage costs a job: the call that fails as the outage begins counts at once, since
// others are still answered. If the outage is over within 10 s, one more failure may be
// attributed late. Between two answers that is at most one.
//
// Samples. In front of many bad jobs the next one in turn would show nothing about the
// provider. A sample is chosen at random among what was fetched, so it finds a good job behind
// them. Jobs before it keep their order and their keys. Where each good job waits behind a bad
// one of its key, there is nothing to find.
package breaker
