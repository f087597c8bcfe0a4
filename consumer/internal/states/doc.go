// Package states is the life of a job at a node: its [State], and what each [Event] changes.
//
// # What it does not do
//
// It knows no job. The scheduler keeps a state for each, and says what happens. The package has no lock, starts no goroutine, and
// nothing in it fails.
package states
