// Package dlqcmd is `dispatcher dlq`: it lists dead letters, and replays or drops them.
//
// consumer/dlq reads and settles them. It starts no goroutine.
package dlqcmd
