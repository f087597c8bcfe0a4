// Package produce writes records to Kafka: jobs, dead letters, records of retry topics and
// results. All writes of the program go through it.
//
// A [Writer] passes each record to kgo once. When the answer to a request is lost, kgo repeats
// the request under the same sequence number, so the broker writes the record once; see
// docs/adr/0009. Each topic has its own queue, so a topic that can't be written delays no
// other topic.
//
// A [BatchWriter] writes batches of jobs and waits for them. The command line, the replay of
// dead letters and tests use it.
//
// The package does not decide what follows a failed write: the caller of [Writer.Put] does.
//
// Goroutines: those of kgo; one for each topic while it passes records to kgo; one for each
// record that waits for its next attempt; and one that reports late records. All of them end
// with [Writer.Close].
package produce
