package consumer

import (
	"context"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/produce"
)

// Connection is how to reach the cluster: brokers, client id, SASL, TLS and Dial.
type Connection = broker.Connection

// SASL is how a client proves who it is.
type SASL = broker.SASL

// FixedLogin is a login for [SASL] that never changes.
func FixedLogin(username, password string) func(context.Context) (string, string, error) {
	return broker.FixedLogin(username, password)
}

// Attempts are the calls that a job has had, and how many of them count as failures.
type Attempts = offsets.Attempts

// Producer writes jobs to Kafka.
type Producer = produce.Producer

// ProducerOptions configures a [Producer].
type ProducerOptions = produce.ProducerOptions

// NewProducer checks the options. It does not connect.
func NewProducer(o ProducerOptions) (*Producer, error) { return produce.NewProducer(o) }

// TooLargeError says that a record is larger than its topic takes.
type TooLargeError = produce.TooLargeError

// UnwrittenError says that none of a batch was written, and none will be.
type UnwrittenError = produce.UnwrittenError
