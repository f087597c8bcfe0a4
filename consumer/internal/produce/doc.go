// Package produce writes records to Kafka: jobs, dead letters, records of retry topics and
// results. It is the one way to the brokers that writes.
//
// A [Writer] hands each record to kgo once. kgo repeats a request whose answer is lost under
// the same number, so that the broker writes the record once; see docs/adr/0009. Each topic
// has a queue of its own, so a topic that can't be written holds up no other.
//
// A [BatchWriter] writes batches of jobs, for the command line and for tests.
//
// Goroutines: kgo's, one a topic while it hands records to kgo, one a record that waits to
// be tried again, and one that reports late records. All end with [Writer.Close].
package produce
