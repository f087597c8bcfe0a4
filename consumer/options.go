package consumer

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"dispatcher/consumer/internal/broker"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/fault"
	"dispatcher/job"

	"github.com/prometheus/client_golang/prometheus"
)

// StartAt is where a group begins in a partition for which it has committed
// nothing yet. Once it has committed something in any partition of the topic it
// begins with the oldest record: the partition was added, and jobs may have been
// written to it before anyone noticed.
type StartAt string

// The places to begin.
const (
	StartFirst StartAt = "first" // with the oldest record
	StartLast  StartAt = "last"  // with what comes from now on, if the group is new
)

// Options configures a [Consumer]. A zero field means its default.
type Options struct {
	broker.Connection

	Group  string   // prefix: the group of a topic is <group>.<topic>
	Topics []string // one lane called default; they must exist
	Lanes  []Lane   // instead of Topics, in order of priority
	Node   string   // this node's name in dead letters; default the client id

	Order       Order // default key
	MaxInFlight int   // jobs ready or handed out and not settled, at most, of each lane; default 256
	MaxJobBytes int   // largest value of a job; default 1 MiB
	// BufferBytes is about what the jobs of all this node's partitions that nobody
	// has taken hold in memory together. When it is used up, a partition is fetched
	// only while it holds less than an equal share. Default 64 MiB.
	BufferBytes int

	CommitInterval time.Duration // default 100 ms
	Heartbeat      time.Duration // default 1 s, which is also the most
	Session        time.Duration // default 10 s
	Drain          time.Duration // how long calls on the wire are awaited; default 7 s
	JoinBackoff    time.Duration // after a join that failed; default 500 ms

	// RetryTopics are the delays of the topics <topic>.retry.<delay>, strictly
	// rising whole seconds from 1 s to 1 h. None: jobs wait in place only.
	RetryTopics []time.Duration

	// JobTimeout is how long a job may be in hand before it goes to a tier or,
	// without tiers, to the dead letters, in any order; 0: for ever.
	JobTimeout time.Duration

	// Jobs that wait in memory for their time or for their next try, over all
	// partitions of the node. Beyond either bound the node fetches nothing until
	// some have gone. Those in flight may still fail and pass the bound.
	MaxAsleep      int // jobs; default 16384
	MaxAsleepBytes int // default 64 MiB

	// ParkUnknown writes dead letters of [ClassUnknown] to <topic>.parked: of jobs
	// that may have been done, and that somebody has to look at.
	ParkUnknown bool

	CreateTopics bool       // create <topic>.dlq and the others that are wanted where they are missing
	Results      bool       // say on <topic>.results what became of each job; see [Results]
	StartAt      StartAt    // default first
	OutOfRange   OutOfRange // default earliest

	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: no metrics
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (o *Options) setDefaults() {
	o.SetDefaults()
	orDefault(&o.Node, o.ClientID)
	orDefault(&o.MaxInFlight, 256)
	orDefault(&o.MaxJobBytes, job.DefaultMaxBytes)
	orDefault(&o.BufferBytes, 64<<20)
	orDefault(&o.MaxAsleep, 1<<14)
	orDefault(&o.MaxAsleepBytes, 64<<20)
	orDefault(&o.CommitInterval, 100*time.Millisecond)
	orDefault(&o.Heartbeat, time.Second)
	orDefault(&o.Session, 10*time.Second)
	orDefault(&o.Drain, 7*time.Second)
	orDefault(&o.JoinBackoff, 500*time.Millisecond)
	orDefault(&o.StartAt, StartFirst)
	orDefault(&o.OutOfRange, RangeEarliest)
	orDefault(&o.Order, OrderKey)
	orDefault(&o.Logger, slog.New(slog.DiscardHandler))
}

func (o *Options) validate() error {
	return errors.Join(o.Validate(), o.validateNames(), o.validateSizes(), o.validateTimes())
}

func (o *Options) validateNames() error {
	var faults []error
	if !topicname.Valid(o.Group) {
		faults = append(faults, fault.New("group", o.Group, topicname.Rule))
	}
	faults = append(faults, o.validateLanes(), o.validateTopics(), validateRetryTopics(o.RetryTopics))
	if o.OutOfRange != RangeEarliest && o.OutOfRange != RangeLatest && o.OutOfRange != RangeStop {
		faults = append(faults, fault.New("out_of_range", string(o.OutOfRange), "must be earliest, latest or stop"))
	}
	if o.StartAt != StartFirst && o.StartAt != StartLast {
		faults = append(faults, fault.New("start_at", string(o.StartAt), "must be first or last"))
	}
	if !slices.Contains([]Order{OrderKey, OrderPartition, OrderNone}, o.Order) {
		faults = append(faults, fault.New("order", string(o.Order), "must be key, partition or none"))
	}
	return errors.Join(faults...)
}

func (o *Options) validateTopics() error {
	var faults []error
	topics := o.jobTopics()
	if len(topics) == 0 {
		faults = append(faults, fault.New("topics", fault.Phrase("[]"), "at least one is needed"))
	}
	for i, t := range topics {
		if !topicname.Valid(t) || !topicname.Valid(topicname.Dead(t)) {
			faults = append(faults, fault.New("topics", t, "must be 1 to 245 of a-z A-Z 0-9 . _ -"))
		}
		if slices.Contains(topics[:i], t) {
			faults = append(faults, fault.New("topics", t, "is named twice"))
		}
		for _, c := range o.derivedTopics(t) {
			if slices.Contains(topics, c) {
				faults = append(faults, fault.New("topics", c, "is a companion of "+t))
			}
			if len(c) > topicname.Longest {
				faults = append(faults, fault.New("topics", t, fmt.Sprintf("is too long for its companion %s: Kafka takes %d characters", c, topicname.Longest)))
			}
		}
	}
	return errors.Join(faults...)
}

func (o *Options) validateSizes() error {
	var faults []error
	if o.MaxInFlight < 1 || o.MaxInFlight > 1<<20 {
		faults = append(faults, fault.New("in_hand", o.MaxInFlight, "must be 1 to 1048576"))
	}
	if o.MaxJobBytes < 1 || o.MaxJobBytes > 64<<20 {
		faults = append(faults, fault.New("max_job_bytes", o.MaxJobBytes, "must be 1 to 67108864"))
	}
	if o.BufferBytes < 1<<20 || o.BufferBytes > 64<<30 {
		faults = append(faults, fault.New("buffer_bytes", o.BufferBytes, "must be 1048576 to 68719476736"))
	}
	if o.MaxAsleep < 1 || o.MaxAsleep > 1<<20 {
		faults = append(faults, fault.New("max_asleep", o.MaxAsleep, "must be 1 to 1048576"))
	}
	if o.MaxAsleepBytes < 1<<10 || o.MaxAsleepBytes > 1<<30 {
		faults = append(faults, fault.New("max_asleep_bytes", o.MaxAsleepBytes, "must be 1024 to 1073741824"))
	}
	return errors.Join(faults...)
}

// validateTimes refuses times that do not fit each other: a drain that outlasts
// the session would let another node work a partition that this one still
// commits for.
func (o *Options) validateTimes() error {
	var faults []error
	for _, t := range []struct {
		field string
		value time.Duration
	}{{"commit_interval", o.CommitInterval}, {"heartbeat", o.Heartbeat}, {"session", o.Session}, {"drain", o.Drain}, {"join_backoff", o.JoinBackoff}} {
		if t.value < time.Millisecond || t.value > time.Hour {
			faults = append(faults, fault.New(t.field, t.value, "must be 1ms to 1h"))
		}
	}
	if o.JobTimeout != 0 && (o.JobTimeout < time.Second || o.JobTimeout > 24*time.Hour) {
		faults = append(faults, fault.New("job_timeout", o.JobTimeout, "must be 1s to 24h, or 0 for none"))
	}
	if o.Heartbeat > time.Second {
		faults = append(faults, fault.New("heartbeat", o.Heartbeat, "must be at most 1s, or a rebalance takes too long"))
	}
	if o.Heartbeat >= o.Session {
		faults = append(faults, fault.New("heartbeat", o.Heartbeat, fmt.Sprintf("must be below the session of %v: raise session", o.Session)))
	}
	if least := o.Drain + o.Heartbeat; least >= o.Session {
		faults = append(faults, fault.New("drain", o.Drain,
			fmt.Sprintf("must be below session − heartbeat = %v: raise session above %v, or lower drain", o.Session-o.Heartbeat, least)))
	}
	return errors.Join(faults...)
}
