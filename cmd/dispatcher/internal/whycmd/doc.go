// Package whycmd is `dispatcher why`: it says what a job or a limit of a running fleet waits for.
//
// Package internal/why asks the nodes. Where none of them holds a job, package consumer/dlq searches the open dead letters for it. The
// command is over after some ten seconds, whatever Redis and Kafka do. It starts no goroutine of its own.
package whycmd
