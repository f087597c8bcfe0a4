// Package steps logs each step of a job at level debug, with the job's id and its place, and never its payload or key.
//
// # What it does not do
//
// It decides nothing. It has no lock and starts no goroutine: who holds a lock notes a step with [Later], and writes it once the lock
// is free. Nothing in it fails.
package steps
