// Package deadletter defines the records that hold a failed job: its headers, how a record
// that is too large is truncated, and how it is read back.
//
// [Compose] makes the record of a dead letter, or of a job on a retry topic. [Truncate] makes a
// dead letter fit its topic. [ReadLetter] and [ReadRetry] read the records. [JobOf] makes the
// job that a replay writes, and [Restored] completes a truncated letter from the original
// record. Headers replace earlier ones of the same name; key, value and all other headers of
// the job stay as they are, byte for byte.
//
// The package does no I/O: package settle writes the records, and package dlq has the commands
// of operators. A header that can't be read counts as missing, since anybody may write to the
// topic. The package starts no goroutine.
package deadletter
