package schedule

import (
	"context"
	"log/slog"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/job"
)

// Delivery is one job that a worker has. The worker ends with exactly one of Done, Dead,
// RetryLater, Sleep, Requeue and Release. What it calls after that, or after the job has
// timed out, has no effect. All methods are safe to call from any goroutine.
type Delivery struct {
	Job job.Job

	part      *Partition
	next      *Delivery  // in the list that holds it
	nextOfKey *Delivery  // waits in the key queue behind this one
	key       uint64     // of its key queue: a hash, or 1 for the partition; 0: it has none
	size      int        // bytes in memory
	times     *times     // nil: it has nothing to wait for
	rejection *Rejection // nil: a worker may have it

	// Guarded by the scheduler's lock.
	state    state
	older    *Delivery // neighbours among the partition's open jobs
	newer    *Delivery
	holdsKey bool             // it is in its key's queue
	attempts offsets.Attempts // as a retry topic, a former owner or its worker said last
	memo     any              // left by the worker that had it sleep
	failed   bool             // it slept since it was tried in vain
}

// times are what a delivery waits for.
type times struct {
	due    time.Time // not handed out before; zero: at once
	lookAt time.Time // of a retry topic's record: not looked at before
}

// Rejection says where a job goes that no worker is to see.
type Rejection struct {
	Failure deadletter.Failure // without a class: nothing has failed
	Delay   time.Duration      // of the retry topic; 0: to the dead letters
	Due     time.Time          // in a retry topic
}

// Delayed tells whether the job goes to a retry topic.
func (r *Rejection) Delayed() bool { return r.Delay > 0 }

// Outcome is the result of a job, for its record on <topic>.results.
type Outcome struct {
	// Result is one of the job.Result constants. Empty: accepted or, beside a dead
	// letter, what its class means.
	Result    string
	Status    int       // HTTP status of the last call; 0: none
	MessageID string    // the provider's name of the message; empty: not known
	Attempts  int       // calls that left the process
	SentAt    time.Time // when the last call was written; zero: never
	Error     string    // for people; never holds the payload
}

// Attempts are the calls that the job has had, on this node and before. A retry topic's
// record tells them, and so does the commit of a node that failed with the job.
// [Delivery.SetAttempts] and [Delivery.Sleep] replace them.
func (d *Delivery) Attempts() offsets.Attempts { return d.attempts }

// FromRetryTopic tells whether the job came through a retry topic.
func (d *Delivery) FromRetryTopic() bool { return d.part.src.Delay > 0 }

// FirstWritten is when the job was first written to Kafka. A record that was replayed, or
// comes from a retry topic, says so.
func (d *Delivery) FirstWritten() time.Time { return deadletter.FirstWritten(&d.Job.Record) }

// FirstTopic is the topic that the job was first written to, likewise.
func (d *Delivery) FirstTopic() string { return deadletter.FirstID(&d.Job.Record).Topic }

// Redrives is how often the job was replayed from the dead letters.
func (d *Delivery) Redrives() int { return deadletter.Redrives(&d.Job.Record) }

// Memo is what the last [Delivery.Sleep] left; nil: the job has not slept.
func (d *Delivery) Memo() any { return d.memo }

// Context ends when the job's partition is taken away or the consumer stops; its cause is
// [ErrRevoked] or [ErrStopped]. A job that still waits then is to be released. A call that
// is in flight goes on.
func (d *Delivery) Context() context.Context { return d.part.asg.ctx }

// TimedOut tells whether a worker has had the job for too long, so that it went to a retry
// topic or to the dead letters. Then it must not be called any more, and is to be released.
func (d *Delivery) TimedOut() bool {
	s := d.part.sched
	if s.opts.JobTimeout == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return d.state == timedOut || d.state == abandoned
}

// SetAttempts notes the job's attempts so far. The next commit tells them to the next owner
// of the partition.
func (d *Delivery) SetAttempts(a offsets.Attempts) {
	s := d.part.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	d.setAttempts(a)
}

// CountFailure counts one more failure of a call that was made before: only now is the
// failure attributed to the job. It may be called at any time.
func (d *Delivery) CountFailure() {
	s := d.part.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	d.setAttempts(offsets.Attempts{Calls: d.attempts.Calls, Failures: d.attempts.Failures + 1})
}

// setAttempts has the tracker commit them, unless the job has left the node's hands. The
// lock is held.
func (d *Delivery) setAttempts(a offsets.Attempts) {
	a.Failures = max(a.Failures, d.attempts.Failures) // the worker may not know of a CountFailure yet
	d.attempts = a
	if d.state < timedOut {
		d.part.tracker.SetAttempts(d.Job.Offset, a)
	}
}

// expired tells whether the job's not-after has passed.
func (d *Delivery) expired() bool {
	return !d.Job.NotAfter.IsZero() && time.Now().After(d.Job.NotAfter)
}

// expiry is the rejection of a job that is too late.
func (d *Delivery) expiry() *Rejection {
	return &Rejection{Failure: deadletter.Failure{Class: deadletter.ClassExpired, Attempt: d.attempts.Calls}}
}

// Step logs at level debug that the job has come to a step, with its id and its place, and
// never its payload or key. It allocates nothing where that level is not logged.
func (d *Delivery) Step(step string, attrs ...slog.Attr) { d.part.sched.step(d, step, attrs) }

// SourceOf is the topic that a job came from. It is a function since workers need none of
// this; so are those that follow.
func SourceOf(d *Delivery) *Source { return d.part.src }

// AssignmentOf is the assignment of a job's partition.
func AssignmentOf(d *Delivery) *Assignment { return d.part.asg }

// RejectionOf says where a job goes that [Scheduler.Rejected] gave.
func RejectionOf(d *Delivery) *Rejection { return d.rejection }
