// Package broker talks to Kafka: connections with TLS and SASL, questions about topics and
// logs, and single requests. It is the one way to the brokers that reads; package produce
// has the one that writes.
//
// kafka-go opens and authenticates the connections. Requests that it does not know, or
// whose answers it reads at too high a cost (Fetch, ListOffsets, Metadata with topic ids),
// go as kmsg messages over the same connections; see docs/adr/0008.
//
// The package starts no goroutine that outlives a call. A [Client] may be used by any
// goroutine; a [Describer] belongs to one.
package broker
