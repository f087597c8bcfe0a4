// Package redisclient makes the Redis client of the limiter and the dedup store: of a single
// server, of Sentinels or of a Cluster, and tells of an error whether an answer was lost. It tries nothing again by itself. It runs no command and
// starts no goroutine; the client belongs to the caller.
package redisclient
