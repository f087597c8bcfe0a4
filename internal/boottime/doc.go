// Package boottime tells for how long this host has been suspended since it
// booted. Go's monotonic clock stands still while a host is suspended, so a time
// that was noted before looks fresh afterwards; the boot clock goes on.
//
// It has no goroutines. On systems other than Linux it knows of no suspension.
package boottime
