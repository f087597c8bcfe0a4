// Package settle writes what has to be in Kafka before a job is settled: its dead letter,
// its record in a retry topic, and its result. Once Kafka has the record, it tells the
// scheduler, which completes the job's offset.
//
//	worker or scheduler ─► result, where results are written ─► dead letter or retry record ─► Recorded
//
// It does not decide what becomes of a job, and it does not say what a dead letter holds:
// package deadletter does.
//
// Goroutines: [Settler.RunRejected] is one for each assignment; it writes what no worker is
// to see, so a dead-letter topic that can't be written stops neither the fetcher nor the
// dead letters of other topics. [Settler.KeepLogging] is one. Both are started by their
// callers. Outcomes come on the writer's goroutines, which never wait.
//
// Failure: a record that Kafka refuses is tried again until the assignment ends; the job
// stays open. A dead letter that is too large is truncated until it fits. A job that is too
// large for its retry topic waits in place, or goes to the dead letters.
package settle
