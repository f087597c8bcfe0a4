// Package wakeup has the runtime's timers end in time.
//
// A process that has nothing else to do waits for its next timer with epoll_wait, which counts in whole milliseconds. So
// its timers end up to a millisecond late, and a slot is good for three. A timer of the kernel is a file that epoll_wait waits for as
// well, and ends to some microseconds. Nobody reads it: the runtime wakes, and finds its own timer due.
//
// A caller waits with a timer of the runtime as it would without a wakeup, so nothing depends on one. Where there is none, and
// on systems other than Linux, timers are late. There are 64 at once at most.
//
// The package starts no goroutine.
package wakeup
