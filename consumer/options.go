package consumer

import (
	"cmp"
	"log/slog"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/internal/fault"
	"dispatcher/job"

	"github.com/prometheus/client_golang/prometheus"
)

// StartAt is where a group begins in a partition for which it has committed nothing. Once it
// has committed something in any partition of the topic, and in partitions that are added, it
// begins with the oldest record: jobs may have been written there before a member noticed.
type StartAt string

// The places to begin.
const (
	StartFirst StartAt = "first" // with the oldest record
	StartLast  StartAt = "last"  // with records that come from now on, if the group is new
)

// Options configures a [Consumer]. A zero field means its default. The fields with a key of
// the configuration file are part of [Config].
type Options struct {
	broker.Connection `yaml:",inline"`

	Group  string   `yaml:"group"`  // prefix: the group of a topic is <group>.<topic>
	Topics []string `yaml:"topics"` // one lane called default; they must exist
	Lanes  []Lane   `yaml:"lanes"`  // instead of Topics, in order of priority

	Order Order `yaml:"order"` // default key

	// RetryTopics are the delays of the topics <topic>.retry.<delay>, strictly
	// rising whole seconds from 1 s to 1 h. None: jobs wait in place only.
	RetryTopics []time.Duration `yaml:"retry_topics"`

	// JobTimeout is how long a job may be in flight before it goes to a retry topic
	// or, without retry topics, to the dead letters, in any order; 0: no bound.
	JobTimeout time.Duration `yaml:"job_timeout"`

	// Jobs that wait in memory for their time or for their next attempt, over all
	// partitions of the node. Beyond either bound the node fetches nothing until
	// some have gone. Those in flight may still fail and pass the bound.
	MaxAsleep      int `yaml:"max_asleep"`       // jobs; default 16384
	MaxAsleepBytes int `yaml:"max_asleep_bytes"` // default 64 MiB

	Workers     int `yaml:"workers"`       // jobs ready or in flight, at most, of each lane; default 256
	MaxJobBytes int `yaml:"max_job_bytes"` // largest value of a job; default 1 MiB

	StartAt      StartAt    `yaml:"start_at"`      // default first
	OutOfRange   OutOfRange `yaml:"out_of_range"`  // default earliest
	CreateTopics bool       `yaml:"create_topics"` // create <topic>.dlq and the other derived topics where they are missing
	Results      bool       `yaml:"results"`       // write the outcome of each job to <topic>.results, and settle it then

	CommitInterval time.Duration `yaml:"commit_interval"` // default 100 ms
	Heartbeat      time.Duration `yaml:"heartbeat"`       // default 1 s, which is also the most
	Session        time.Duration `yaml:"session"`         // default 10 s
	Drain          time.Duration `yaml:"drain"`           // how long calls in flight are awaited; default 7 s

	Node        string        `yaml:"-"` // this node's name in dead letters; default the client id
	JoinBackoff time.Duration `yaml:"-"` // after a join that failed; default 500 ms
	// SlotTime is for how long after the end of an assignment a job that has a slot is still called; 0: not at all. It must not be
	// longer than Drain less the longest call.
	SlotTime time.Duration `yaml:"-"`
	// BufferBytes is about how many bytes of memory the fetched jobs that are not ready yet may hold, and in a fair
	// lane those that wait for a limit, over all partitions of the node. When they are used up, a partition is
	// fetched only while it holds less than an equal share. Default 64 MiB.
	BufferBytes int `yaml:"-"`
	// IgnoreCost takes any header cost, and gives each job a cost of 1: an expression says
	// what jobs cost.
	IgnoreCost bool `yaml:"-"`
	// ParkUnknown writes the dead letters of class unknown to <topic>.parked: those of jobs
	// that the provider may have done, so that an operator has to decide.
	ParkUnknown bool `yaml:"-"`

	Logger     *slog.Logger          `yaml:"-"` // nil: none
	Registerer prometheus.Registerer `yaml:"-"` // nil: no metrics
}

func (o *Options) setDefaults() {
	o.SetDefaults()
	o.Node = cmp.Or(o.Node, o.ClientID)
	o.Workers = cmp.Or(o.Workers, 256)
	o.MaxJobBytes = cmp.Or(o.MaxJobBytes, job.DefaultMaxBytes)
	o.BufferBytes = cmp.Or(o.BufferBytes, 64<<20)
	o.MaxAsleep = cmp.Or(o.MaxAsleep, 1<<14)
	o.MaxAsleepBytes = cmp.Or(o.MaxAsleepBytes, 64<<20)
	o.CommitInterval = cmp.Or(o.CommitInterval, 100*time.Millisecond)
	o.Heartbeat = cmp.Or(o.Heartbeat, time.Second)
	o.Session = cmp.Or(o.Session, 10*time.Second)
	o.Drain = cmp.Or(o.Drain, 7*time.Second)
	o.JoinBackoff = cmp.Or(o.JoinBackoff, 500*time.Millisecond)
	o.StartAt = cmp.Or(o.StartAt, StartFirst)
	o.OutOfRange = cmp.Or(o.OutOfRange, RangeEarliest)
	o.Order = cmp.Or(o.Order, OrderKey)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
}

// Validate checks the options after their defaults were set.
func (o *Options) Validate() error {
	var l fault.List
	l.Under("", o.Connection.Validate())
	o.checkNames(&l)
	o.checkSizes(&l, 1, 1<<10)
	o.checkTimes(&l)
	l.Within("buffer_bytes", o.BufferBytes, 1<<20, 64<<30)
	l.Between("join_backoff", o.JoinBackoff, time.Millisecond, time.Hour)
	return l.Err()
}
