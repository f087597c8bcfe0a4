// Package settle writes the records that have to be in Kafka before a job is settled: its
// result, and its dead letter or its record in a retry topic. Once Kafka has them, it calls
// [schedule.EndRecord], which completes the job's offset. A job without a record is settled at
// once, with [schedule.Settle].
//
//	done         result ─► offset complete
//	given up     result ─► dead letter ─► offset complete
//	tried later  record of a retry topic ─► offset complete
//
// The step result is left out where no results are written.
//
// It does not decide what becomes of a job. Package deadletter composes and truncates the
// records; package produce writes them.
//
// Goroutines: [Settler.RunDiverted] is one for each assignment. It gives the records of
// diverted jobs to the writer and waits for none of them. So a topic that can't be written stops neither
// the fetcher nor the records that go to other topics. [Settler.KeepLogging] is one. Both are started by their
// callers. Outcomes come on the writer's goroutines, which must not block. There the
// next step of a diverted job begins, such as its dead letter after its result.
//
// Failure: a record that Kafka refuses is tried again until the assignment ends; the job
// stays open. A dead letter that is too large is truncated until it fits, and tried again when nothing
// is left to truncate. A job that is too
// large for its retry topic waits in place, or goes to the dead letters.
//
// # Reasons
//
// Produce, then settle. The offset is complete when Kafka has the result. A crash in between
// repeats the job and its result; it loses none. In the other order, jobs settled in the last
// milliseconds before a crash would have no result.
//
// No worker waits for a result. The job stays in flight for linger (5 ms) and write, about 6
// ms, and so does its key. The ceiling is kafka.workers in that time: about 40,000 jobs a
// second with 256. A dead letter's worker does wait: first the result, then the letter.
//
// Each diverted job is with the writer at once. Where Kafka refuses its record, that takes a few kilobytes and a goroutine until the next
// try. Package schedule counts them as bytes that the partition holds.
//
// A job does not time out while a record is written for it ([schedule.BeginRecord]): it would
// be sent again.
//
// Results that can't be written are tried again until the drain has ended. Then their jobs are
// released, and done again by the next owner. Meanwhile they are in flight, so a node stops
// when kafka.workers of them wait. That bounds memory as well.
//
// A record that is no job has no result: its dead letter says all there is to say. A retry
// topic's results are those of its source topic.
package settle
