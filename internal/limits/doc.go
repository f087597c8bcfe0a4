// Package limits reads the limits that Redis holds for operators, and makes one JSON document of each. `dispatcher limit`
// prints that document, and so both say the same.
//
// # What it does not do
//
// It changes nothing itself: package throttle/control does, for [Reader.Release] as well. It knows no node but by what Redis holds of it.
//
// # Who owns which goroutine
//
// It starts none. A [Reader] may be used by several goroutines.
//
// # Failure
//
// What can't be read from Redis is an error; nothing is left out in silence.
package limits
