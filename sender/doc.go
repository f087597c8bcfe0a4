// Package sender makes one outbound call and reports what happened: render,
// connection, permit, write, answer.
//
// It does not know the limiter, Kafka, or what a result leads to. It is handed
// a [Permit] and calls it last, at the wire.
package sender
