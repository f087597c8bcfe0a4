// Package wakeup has the runtime's timers end in time.
//
// A process that has nothing else to do waits for its next timer with epoll_wait, which counts in whole milliseconds. So
// its timers end up to a millisecond late, half of one on average: a sixth of the time for which a slot may be used. A timer of the
// kernel that is a file ends that wait to some microseconds. Nobody reads it: the runtime wakes, and finds its own timer due.
//
// A wakeup changes no time at which anything happens, so a caller waits as it would without one. Where the kernel gives
// none, and on systems other than Linux, timers are as late as before.
//
// The package starts no goroutine.
package wakeup
