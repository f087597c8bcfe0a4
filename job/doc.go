// Package job is the wire contract between producers and dispatcher: what a
// Kafka record must hold to be a job, and how it is read.
//
// It is a leaf. It knows no Kafka client, no Redis and no provider, so that a
// producer can import it and drag in nothing but the standard library.
//
// It does not decide what happens to a job that can't be read or isn't
// supported yet: [Decode] returns an [Error] with a closed reason, and the
// consumer dead-letters the record with its original bytes.
package job
