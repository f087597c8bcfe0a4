// Package job is the wire contract between producers and dispatcher: what a
// Kafka record must hold to be a job, and how it is read.
//
// It is a leaf. It knows no Kafka client, no Redis and no provider, so that a
// producer can import it and drag in nothing but the standard library.
//
// It does not decide what happens to a job that can't be read or isn't
// supported yet: [Decode] returns an [Error] with a closed reason, and the
// consumer dead-letters the record with its original bytes.
//
// # How it works
//
// [Decode] looks at each header once, and at the value only when no header
// names the job: then it scans for a top-level "id" and stops at the first one.
// The scan decodes nothing else and keeps no state, so its cost is that of
// reading the bytes before the id, and the size limit bounds it.
//
// The package starts no goroutine, keeps no state and reads no clock; the time
// is an argument.
//
// # Failure
//
// Every error of [Decode] is an [*Error]. Its text names the field and the
// rule, never a value: an id may well be a phone number.
package job
