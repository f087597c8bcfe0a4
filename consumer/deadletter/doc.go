// Package deadletter is what a dead letter is: its headers, how it is truncated, and how it
// is read back. [Compose] makes the record of a dead letter, or of a job in a retry topic;
// [Truncate] makes one fit; [ReadLetter] and [ReadRetry] read them; [JobOf] is the job that a
// replay writes.
//
// It writes nothing: package settle does. An operator's commands are in package dlq. It starts
// no goroutine.
package deadletter
