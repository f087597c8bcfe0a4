// Package gates tells the pacer on which limits after the first a job counts, with which values of
// their keys, and how many units. It remembers until when each value
// is used up, and has the jobs of such a value wait in a line, the oldest first. So a node asks
// Redis only for jobs that may get a slot.
//
// It grants nothing: package throttle does, and what is remembered here may be old. Then a job is
// asked for in vain, or a little late.
//
// It starts no goroutine. A [Gates] belongs to that of its caller, the pacer.
package gates
