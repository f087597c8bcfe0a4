// Package gates knows, for the pacer, the limits that a job counts on after the first: on which
// of them, with which value of their keys, and how many units. It remembers until when each value
// is used up, and has the jobs of such a value wait in a line, the oldest first. So a node asks
// Redis only for jobs that may get a slot.
//
// It grants nothing: package throttle does, and what is remembered here may be old. Then a job is
// asked for in vain, or a little late.
//
// It starts no goroutine. A [Gates] belongs to that of its caller, the pacer.
package gates
