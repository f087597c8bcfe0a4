// Package broker opens connections to Kafka with TLS and SASL, reads records, asks about topics,
// groups and logs, creates topics and commits offsets. Package produce writes records.
//
// kafka-go opens and authenticates the connections. It does not know some requests (Metadata
// with topic ids), sends too many of others (ListOffsets), and reads the answers of Fetch at a
// high cost. [Client.Request] sends these as kmsg messages over connections of their own; see
// docs/adr/0008.
//
// The package does not retry: an error that [Permanent] reports won't pass by itself, and the
// caller decides about all others. [RequireTopics] asks twice, since a topic that was just
// created may not be known to every broker yet.
//
// Goroutines: [LogRanges] starts one for each broker and waits for them. No other function
// starts one. A [Client] may be used by any goroutine; a [Describer] belongs to one.
package broker
