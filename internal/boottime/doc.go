// Package boottime returns for how long this host has been suspended since it booted.
// Go's monotonic clock stands still while a host is suspended, so an earlier reading
// looks fresh afterwards. The boot clock goes on. A [Deadline] holds what it takes to see that.
//
// It has no goroutines. On systems other than Linux it sees no suspension.
package boottime
