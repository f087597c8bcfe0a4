// Package phase says what a limiter does at present, and why no slot can be had: a [State] with its [Phase], as a readiness check and
// people read it.
//
// # What it does not do
//
// It moves no limiter: package throttle does, and gives snapshots. It starts no goroutine, and nothing in it fails. [State.Ready] returns an
// error that describes the state; it wraps Redis's own answer where there is one.
package phase
