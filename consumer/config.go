package consumer

import (
	"time"

	"dispatcher/consumer/internal/auth"
	"dispatcher/internal/fault"
	"dispatcher/internal/tlsfiles"
)

// Config is the section kafka of the configuration: the [Options] that have a key, how a node
// logs in, and when it leaves its groups.
type Config struct {
	Options `yaml:",inline"`

	StalledAfter time.Duration     `yaml:"stalled_after"` // a node that can't send for so long leaves its groups; 0: never
	SASL         auth.SASLConfig   `yaml:"sasl"`
	TLS          tlsfiles.Settings `yaml:"tls"`
}

// An operator's bounds are narrower than those of [Options]: smaller sizes are a mistake in
// the unit.
const (
	leastJobBytes    = 1 << 10
	leastAsleepBytes = 1 << 20
)

// JobTopics are the topics of all lanes, in order of priority.
func (c Config) JobTopics() []string { return c.jobTopics() }

// Validate returns all faults of the section, each named by its key.
func (c Config) Validate() error {
	var l fault.List
	l.Under("", c.Connection.Validate())
	c.checkNames(&l)
	c.checkSizes(&l, leastJobBytes, leastAsleepBytes)
	c.checkTimes(&l)
	l.Refuse(c.StalledAfter != 0 && (c.StalledAfter < 5*time.Second || c.StalledAfter > time.Hour), "stalled_after", c.StalledAfter,
		"must be from 5s to %s, or 0s for never", time.Hour)
	l.Under("sasl", c.SASL.Validate())
	l.Under("tls", c.TLS.Validate())
	return l.Err()
}

func (o *Options) checkNames(l *fault.List) {
	l.Refuse(!isJobTopic(o.Group), "group", o.Group, "must be 1 to 245 letters, digits and . _ -")
	o.checkLanes(l)
	o.checkTopics(l)
	checkRetryTopics(l, o.RetryTopics)
	l.OneOf("order", string(o.Order), string(OrderKey), string(OrderPartition), string(OrderNone))
	l.OneOf("start_at", string(o.StartAt), string(StartFirst), string(StartLast))
	l.OneOf("out_of_range", string(o.OutOfRange), string(RangeEarliest), string(RangeLatest), string(RangeStop))
}

func (o *Options) checkSizes(l *fault.List, leastJob, leastAsleep int) {
	l.Within("workers", o.Workers, 1, 1<<16)
	l.Within("max_job_bytes", o.MaxJobBytes, leastJob, 64<<20)
	const beside = 64 << 10 // what a batch may hold beside a job
	l.Refuse(o.MaxBatchBytes < o.MaxJobBytes+beside, "max_batch_bytes", o.MaxBatchBytes,
		"must be at least %d, 64 KiB above kafka.max_job_bytes: a compressed batch of one job must fit", o.MaxJobBytes+beside)
	l.Within("max_asleep", o.MaxAsleep, 1, 1<<20)
	l.Within("max_asleep_bytes", o.MaxAsleepBytes, leastAsleep, 1<<30)
}

// checkTimes refuses times that do not fit each other: if a drain outlasted the session,
// another node would work a partition for which this one still commits.
func (o *Options) checkTimes(l *fault.List) {
	const least = time.Millisecond
	l.Refuse(o.CommitInterval < least || o.CommitInterval > time.Second, "commit_interval", o.CommitInterval,
		"must be from 1ms to 1s: a crash repeats the jobs settled in this time")
	l.Refuse(o.Heartbeat < least, "heartbeat", o.Heartbeat, "must be at least 1ms")
	l.Refuse(o.Heartbeat > time.Second, "heartbeat", o.Heartbeat, "must be at most 1s, or a rebalance takes too long")
	l.Between("session", o.Session, least, time.Hour)
	l.Between("drain", o.Drain, least, time.Hour)
	l.Refuse(o.JobTimeout != 0 && (o.JobTimeout < time.Second || o.JobTimeout > 24*time.Hour), "job_timeout", o.JobTimeout,
		"must be from 1s to 24h, or 0s for no bound")
	l.Refuse(o.Heartbeat >= o.Session, "heartbeat", o.Heartbeat, "must be below kafka.session of %s: raise kafka.session", o.Session)
	l.Refuse(o.Drain+o.Heartbeat >= o.Session, "drain", o.Drain, "must be below kafka.session less kafka.heartbeat, %s; raise kafka.session above %s",
		o.Session-o.Heartbeat, o.Drain+o.Heartbeat)
}
