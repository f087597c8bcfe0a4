package schedule

import "time"

// Source is a topic that jobs come from: a topic of jobs, or one of its retry topics.
type Source struct {
	Topic    string
	JobTopic string // the topic itself, or that whose retry topic it is
	Lane     *Lane
	Delay    time.Duration // how long each record of a retry topic waits; 0: it is a topic of jobs
}

// Order is which jobs are handed out one at a time, in the order of their offsets. A job
// that is tried again in place holds those behind it.
type Order string

// The orders.
const (
	OrderKey       Order = "key"       // those of one key
	OrderPartition Order = "partition" // those of one partition
	OrderNone      Order = "none"      // none
)
