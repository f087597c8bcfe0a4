// Package expression compiles and runs expressions over a job: the key of a limit, its
// condition, and the cost of a job.
//
// The language is that of github.com/expr-lang/expr. An expression has no side effects, and
// it ends: there are no loops.
//
// # Names
//
//	job.key              the key of the record, as text
//	job.id               the ID of the job
//	job.lane             the lane
//	job.topic            the topic
//	job.headers["name"]  the last header of that name, as text; nil if the job has none
//	job.json             the value of the job, decoded from JSON
//
// Names of headers are case-insensitive, as [job.Decode] reads them. Of a structured
// CloudEvent job.json is the whole event.
//
// A whole number in job.json is an integer, so that a phone number keeps its digits. A number
// that is too large for 64 bits is text. Every other number is a float.
//
// The functions are int, string, float, len, abs, ceil, floor, round, min, max, trim,
// trimPrefix, trimSuffix, upper, lower, split, indexOf, lastIndexOf, hasPrefix, hasSuffix and
// type. int and string are this package's own: both refuse a value that is missing, and string
// writes a whole number with all its digits. The string of the 1.17 library gives "<nil>" and
// 4.6e+10 there.
//
// # Results
//
// A [Key] is text, a whole number or a bool, and 1 to 1024 bytes long. The number 7 and the
// text "7" are the same key. A [Condition] is a bool. A [Cost] is a whole number from 1 to
// [job.MaxCost]. Everything else is an error, and so is a value that is missing: write
// job.headers["from"] ?? "none" for a default.
//
// # Bounds
//
// A job is hostile, an operator is not. So the work of an expression is at most a small number
// of passes over the job:
//
//   - The source has at most 1024 bytes and 128 nodes.
//   - There are no variables, loops, ranges, clocks and functions that repeat or replace text,
//     and a regular expression must be written out.
//   - job.json is decoded at most once for a job, and only if an expression asks for it. A value
//     above 1 MiB or deeper than 64 levels is not decoded, and that is an error.
//
// # Goroutines
//
// The package starts none. Key, Condition and Cost may be used by several goroutines at once.
// A [Job] may not: it keeps its decoded value.
//
// # Failure
//
// Every error is an [*Error]. It names the expression and the place in it, and never holds a
// value of the job: it goes to logs, to dead letters and to results. Where the job lies in Kafka,
// which a dead letter says, leads to its producer.
package expression
