// Package embedded is a whole surrounding in one process: a Kafka (kfake), a
// Redis (miniredis) and a simulated provider that judges, on loopback ports.
// The demo and fast tests run on it.
//
// It is not Kafka and not Redis. What a run on it shows is never claimed for
// the real ones; integration/ is for those. The embedded Redis can't tell which
// master it is, so a limiter on it would not notice a failover.
//
// Goroutines: the parts start their own; [Parts.Run] owns the provider's and
// closes all parts when its context ends.
package embedded
