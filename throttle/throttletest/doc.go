// Package throttletest gives tests the slots that they need. [NextSlot] uses the
// caller's limiter and starts no goroutine. [GivenUp] runs a limiter of its own, which ends with the
// test. The package needs a Redis, and judges nothing.
package throttletest
