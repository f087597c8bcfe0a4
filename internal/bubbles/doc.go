// Package bubbles runs a test in a bubble of testing/synctest where the race detector
// is likely to die in one: many goroutines, whose channel timers are due at the same
// instants. Package throttle has such tests. It owns no goroutine. It goes when Go has
// mended https://go.dev/issue/78156.
package bubbles
