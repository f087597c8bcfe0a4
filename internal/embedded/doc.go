// Package embedded runs all servers that nodes need in one process: a Kafka (kfake), a
// Redis (miniredis) and the simulated provider, on loopback ports. The demo and fast
// tests run on it.
//
// It is not Kafka and not Redis. A run on it proves nothing about the real ones; the
// tests in integration/ do that. The embedded Redis has no identity of a master, so a
// limiter on it does not notice a failover.
//
// Goroutines: the parts start their own; [Parts.Run] owns the provider's and
// closes all parts when its context ends.
package embedded
