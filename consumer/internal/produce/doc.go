// Package produce writes records to Kafka: jobs, dead letters, records of retry topics and
// results. All records that the program writes go through it.
//
// A [Writer] passes a record to kgo, and again only after kgo has refused it. When the answer
// to a request is lost, kgo repeats the request under the same sequence number, so the broker
// writes the record once; see docs/adr/0009. Each topic has its own queue, so a topic that
// can't be written delays no other topic.
//
// A [BatchWriter] writes batches of jobs and waits for them. The command line, the replay of
// dead letters and tests use it.
//
// The package does not decide what follows a failed write: the caller of [Writer.Put] does.
//
// Goroutines: those of kgo; one for each topic while it passes records to kgo; one for each
// record that waits for its next attempt; and one that reports late records. All of them end
// with [Writer.Close].
//
// # Reasons
//
// Bounds. kgo has at most 1,000 records of a topic, and no more bytes than one batch of the
// topic may have, or one record that is larger. The rest waits in the topic's queue, which the
// jobs that wait for it bound. A batch that is refused as too large goes again in halves. A
// record that went alone and is refused is too large itself.
//
// Too large: a dead letter is truncated, a result goes under its job's id instead of its key,
// a job that is to be tried again waits in place, and a job that waits for its time sleeps if
// that is at most a minute away.
//
// The drain awaits records as it awaits calls. A record that is not acknowledged at its end
// leaves its job open. Only while no broker answers does it wait longer: nothing can be
// committed then, and no node can take over. A stop does not wait.
package produce
