// Package topicname names topics: those that are derived from a source topic of jobs, and
// those that Kafka accepts. For a source topic "jobs" the derived topics are:
//
//	jobs.dlq        dead letters
//	jobs.parked     jobs whose call got no answer, with on_unknown: park
//	jobs.retry.1m   jobs that wait for a minute
//	jobs.results    results
//
// The package knows names only. It does not ask Kafka, and it starts no goroutine.
package topicname
