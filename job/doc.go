// Package job is the contract between producers and dispatcher: what a Kafka record
// must hold to be a job, and how it is read.
//
// It imports no Kafka client, no Redis and no provider. A producer that imports it
// needs nothing but the standard library.
//
// # What it does not do
//
// It does not decide what happens to a record that is no job, or asks for something
// that is not supported: [Decode] returns an [Error] with one of a closed set of
// reasons, and the consumer writes the original bytes to the dead letters.
//
// # How it works
//
// [Decode] reads each header once. It reads the value only if no header holds the
// job's id: then it scans for a top-level "id" and stops at the first one. The scan
// decodes nothing else, so it costs as much as reading the bytes before the id, and
// the size limit bounds it.
//
// The package starts no goroutine, keeps no state and reads no clock.
//
// # Failure
//
// Every error of [Decode] is an [*Error]. Its text names the field and the rule, never
// a value, because an id may be a phone number.
package job
