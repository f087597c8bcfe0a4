// Package settle writes the records that have to be in Kafka before a job is settled: its
// result, and its dead letter or its record in a retry topic. Once Kafka has them, it calls
// [schedule.Answer] or [schedule.Recorded], which completes the job's offset.
//
//	worker or scheduler ─► result, where results are written ─► dead letter or retry record ─► offset complete
//
// It does not decide what becomes of a job. Package deadletter composes and truncates the
// records; package produce writes them.
//
// Goroutines: [Settler.RunRejected] is one for each assignment. It writes the jobs that no
// worker sees, so a dead-letter topic that can't be written stops neither the fetcher nor the
// dead letters of other topics. [Settler.KeepLogging] is one. Both are started by their
// callers. Outcomes come on the writer's goroutines, which must not block.
//
// Failure: a record that Kafka refuses is tried again until the assignment ends; the job
// stays open. A dead letter that is too large is truncated until it fits. A job that is too
// large for its retry topic waits in place, or goes to the dead letters.
package settle
