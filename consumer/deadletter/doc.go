// Package deadletter is what a dead letter is: its headers, how it is truncated, and an
// operator's way to read, replay and drop it.
//
// [Compose] makes the record of a dead letter, or of a job in a retry topic, and [Truncate]
// makes one fit. [Client] lists dead letters and settles each by replaying or dropping it.
// The consumer itself never reads them; it writes them by package settle.
//
// The package starts goroutines only for a command that settles: one that follows the
// group's generations, which ends with the command.
package deadletter
