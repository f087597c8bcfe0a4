package consumer

import (
	"context"
	"errors"
	"time"

	"dispatcher/consumer/internal/auth"
	"dispatcher/consumer/internal/backlog"
	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/diversion"
	"dispatcher/consumer/internal/fetch"
	"dispatcher/consumer/internal/lifetime"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/order"
	"dispatcher/consumer/internal/produce"
	"dispatcher/consumer/internal/schedule"
	"dispatcher/consumer/internal/status"
	"dispatcher/job"
)

// The types of the packages below that are part of this package's API.
type (
	// Connection is how to reach the cluster: brokers, client id, SASL, TLS and Dial.
	Connection = broker.Connection
	// SASL is how a client proves who it is.
	SASL = auth.SASL

	// Producer writes jobs to Kafka.
	Producer = produce.BatchWriter
	// ProducerOptions configures a [Producer].
	ProducerOptions = produce.BatchOptions
	// TooLargeError says that a record is larger than its topic takes.
	TooLargeError = produce.TooLargeError
	// UnwrittenError says that none of a batch was written, and none will be.
	UnwrittenError = produce.UnwrittenError

	// Delivery is one job, from its fetch until it is settled or dropped. A worker that took
	// it ends with exactly one of Done, Dead, RetryLater, Sleep, Requeue and Release; where
	// RetryLater returns false, another has to follow. Package schedule says what each does.
	// Dead and RetryLater keep the worker until Kafka has the record.
	Delivery = schedule.Delivery
	// SleepOptions says how a job waits for its next attempt.
	SleepOptions = schedule.SleepOptions
	// DeferOptions says for which limit a job waits, and until when.
	DeferOptions = schedule.DeferOptions
	// Outcome is the result of a job, for its record on <topic>.results.
	Outcome = schedule.Outcome
	// Attempts are the calls that a job has had, and how many of them count as failures.
	Attempts = offsets.Attempts

	// Place is where a job stands in Kafka.
	Place = status.Place
	// Stay is where a job is on this node, and what it waits for.
	Stay = status.Stay
	// WaitsFor says what a job of this node waits for.
	WaitsFor = status.WaitsFor
	// Progress says how far a partition of this node has come.
	Progress = status.Progress

	// LaneStatus is one lane on this node.
	LaneStatus = status.Lane
	// LaneBacklog is the jobs of a lane that this node has fetched and that wait for their turn.
	LaneBacklog = backlog.Lane
	// Expiring are jobs of a lane that expire close to each other.
	Expiring = backlog.Expiring
	// Pile is jobs of this node that wait for the same.
	Pile = status.Pile
	// ValueOf tells the value of a limit that a job waits for.
	ValueOf = schedule.ValueOf
	// PartitionStatus is one partition that this node works.
	PartitionStatus = status.Partition

	// Order is which jobs are handed out one at a time, in the order of their offsets.
	Order = order.Order
	// OutOfRange is where a group goes on when the offset that it has reached is not in the
	// log any more: retention has deleted it, or the topic was created again.
	OutOfRange = offsets.OutOfRange
)

// The orders.
const (
	OrderKey       = order.Key       // those of one key
	OrderPartition = order.Partition // those of one partition
	OrderNone      = order.None      // none
)

// What jobs wait for; see [WaitsFor]. A job that is ready or taken waits for something outside
// this package.
const (
	WaitsForLane     = status.WaitsForLane
	WaitsForSleepers = status.WaitsForSleepers
	WaitsForOffsets  = status.WaitsForOffsets
	WaitsForOrder    = status.WaitsForOrder
	WaitsForTime     = status.WaitsForTime
	WaitsForRetry    = status.WaitsForRetry
	WaitsForProvider = status.WaitsForProvider
	WaitsForLimit    = status.WaitsForLimit
	WaitsForHold     = status.WaitsForHold
	WaitsForTurn     = status.WaitsForTurn
	WaitsForCall     = status.WaitsForCall
	WaitsForRecord   = status.WaitsForRecord
)

// The choices of [OutOfRange].
const (
	RangeEarliest = offsets.RangeEarliest // go on with the first record there is
	RangeLatest   = offsets.RangeLatest   // go on with records that come from now on
	RangeStop     = offsets.RangeStop     // the consumer ends with an error
)

// Why a delivery's context ended; ask with [context.Cause].
var (
	ErrRevoked = lifetime.ErrRevoked // the partition goes to another node
	ErrStopped = lifetime.ErrStopped // the consumer stops, or leaves its groups
)

// NewProducer checks the options. It does not connect.
func NewProducer(o ProducerOptions) (*Producer, error) { return produce.NewBatchWriter(o) }

// FixedLogin is a login for [SASL] that never changes.
func FixedLogin(username, password string) func(context.Context) (string, string, error) {
	return auth.FixedLogin(username, password)
}

// CheckJob returns why a node that gets a job of a lane's topic now dead-letters it unsent; nil: it doesn't.
// Without lanes the lane is [DefaultLane]. retryTopics are the delays of the retry topics, rising.
func CheckJob(j *job.Job, lane string, retryTopics []time.Duration, now time.Time) error {
	if err := fetch.CheckJob(j, lane); err != nil {
		return err
	}
	if j.Expired(now) {
		return errors.New("not-after: has passed, so the job would expire; name a later time")
	}
	to := diversion.NotDue(retryTopics, j.NotBefore.Sub(now), j.NotBefore, offsets.Attempts{})
	if to != nil && to.Failure.Class != "" {
		return errors.New(to.Failure.Message)
	}
	return nil
}
