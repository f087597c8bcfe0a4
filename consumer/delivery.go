package consumer

import (
	"context"

	"dispatcher/job"
)

// Delivery is one job in hand. Exactly one of Done, Dead and Return is to be
// called, once. All methods are safe to call from any goroutine.
type Delivery struct {
	Job job.Job
	// unexported: the assignment it belongs to
}

// Failure says why a job is dead-lettered. Class is one of the closed set in
// the Class constants; Code is the provider's or an HTTP status; Message is
// for people and never holds the payload.
type Failure struct {
	Class   Class
	Code    string
	Message string
	Attempt int // calls that left the process
}

// Class is the closed set of reasons for a dead letter (header x-error-class).
type Class string

// The classes a dead letter can have.
const (
	ClassDecode      Class = "decode"      // the record could not be read
	ClassUnsupported Class = "unsupported" // asks for something not built yet
	ClassPermanent   Class = "permanent"   // the provider rejected it
	ClassExhausted   Class = "exhausted"   // failed as often as allowed
	ClassExpired     Class = "expired"     // its not-after passed before it was sent
	ClassUnknown     Class = "unknown"     // written, no answer, and on_unknown is dlq
)

// Context ends when the job's partition is taken away or the consumer stops.
// A job that still waits then is to be returned; a call on the wire goes on.
func (d *Delivery) Context() context.Context { panic("not built") }

// Done settles the job: its offset counts as complete.
func (d *Delivery) Done() { panic("not built") }

// Dead writes the record to the dead-letter topic and, once Kafka has
// acknowledged it, settles it. It blocks, and tries again, until that is done
// or Context ends; then the job is returned.
func (d *Delivery) Dead(f Failure) { panic("not built") }

// Return gives the job back unsent: its offset stays open and another node,
// or this one later, gets it again.
func (d *Delivery) Return() { panic("not built") }
