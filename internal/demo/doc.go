// Package demo runs a whole fleet in one process on embedded parts, and measures it at
// the provider. `dispatcher demo` shows it.
//
// It shows nothing itself: [Run] passes snapshots to its caller, and returns a summary.
// All goroutines that Run starts have ended when it returns. If a part or a node fails, Run
// stops the rest and returns that error.
package demo
