package schedule

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/backlog"
	"dispatcher/consumer/internal/diversion"
	"dispatcher/consumer/internal/lifetime"
	"dispatcher/consumer/internal/linked"
	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/order"
	"dispatcher/consumer/internal/states"
	"dispatcher/job"
)

// Delivery is one job, from its fetch until it is settled or dropped. A worker that took it
// ends with exactly one of Done, Dead, RetryLater, Sleep, Requeue and Release; where RetryLater returns
// false, another has to follow. A second call has no effect. After a timeout any of these calls only frees the worker's place. Dead and
// RetryLater keep the worker until Kafka has the record. Note, SetNote and Memo belong to who has taken the
// job; the other methods are safe to call from any goroutine.
type Delivery struct {
	Job job.Job

	part      *Partition
	next      *Delivery            // in the list that holds it
	tenant    string               // in a fair lane; empty in others
	number    int64                // among the jobs of its lane, in the order in which they came
	diversion *diversion.Diversion // nil: a worker may have it
	note      any                  // belongs to who has taken the job
	slot      atomic.Int64         // that it was granted last, in Unix nanoseconds; 0: none yet
	size      int32                // of it in memory, see bytes; state and failed lie in the same word

	// Guarded by the scheduler's lock.
	state    states.State
	failed   bool // its last call failed, and it slept since
	keyQueue order.Place[Delivery]
	older    *Delivery // neighbours among the partition's open jobs
	newer    *Delivery
	attempts offsets.Attempts // as its retry record, the last owner's commit or its worker said
	wait     *wait            // nil: it has not had to wait for anything but its turn
}

// wait is what a job waits for beside its turn, and what it has from such waits before. Few jobs have one, and the collector looks
// through all those that are in memory: so it is kept apart.
type wait struct {
	due    time.Time // not handed out before; zero: at once
	lookAt time.Time // of a retry topic's record: not looked at before
	timer  int       // place of its timer, while it is asleep
	memo   any       // left by the worker that had it sleep
	limit  string    // that it waits for, or the rule that holds it; empty: none
	held   bool      // it is a rule that it waits for
	passes time.Time // when that wait will be over, as far as is known; zero: with its timer
}

// waits is the job's wait, which it gets where it has none.
func (d *Delivery) waits() *wait {
	if d.wait == nil {
		d.wait = new(wait)
	}
	return d.wait
}

// bytes is what the job takes in memory.
func (d *Delivery) bytes() int { return int(d.size) }

// due is when the job may be handed out; zero: at once.
func (d *Delivery) due() time.Time {
	if d.wait == nil {
		return time.Time{}
	}
	return d.wait.due
}

// limit is the limit that the job waits for, or the rule that holds it; empty: none.
func (d *Delivery) limit() string {
	if d.wait == nil {
		return ""
	}
	return d.wait.limit
}

// list is a queue of deliveries, and keyQueues are the key queues of a partition. openJobs are a partition's open jobs in the order in
// which they came, or woke at their not-before. So the oldest is known, whatever is settled in between. Jobs that sleep until their
// not-before are not among them: they wait for their time, and not for this node.
type (
	list      = linked.List[Delivery, links]
	openJobs  = linked.Chain[Delivery, links]
	keyQueues = order.Queues[Delivery, links]
)

// links says where a delivery keeps its neighbours, and its place in its key queue.
type links struct{}

func (links) Next(d *Delivery) **Delivery              { return &d.next }
func (links) Bytes(d *Delivery) int                    { return d.bytes() }
func (links) Older(d *Delivery) **Delivery             { return &d.older }
func (links) Newer(d *Delivery) **Delivery             { return &d.newer }
func (links) Place(d *Delivery) *order.Place[Delivery] { return &d.keyQueue }

// Outcome is the result of a job, for its record on <topic>.results.
type Outcome struct {
	// Result is one of the job.Result constants. Empty: the class of the dead letter
	// decides; without a dead letter the job was accepted.
	Result    string
	Status    int       // HTTP status of the last call; 0: none
	MessageID string    // the provider's name of the message; empty: not known
	Attempts  int       // calls that left the process
	SentAt    time.Time // when the last call was written; zero: never
	Error     string    // for people; never holds the payload
}

// Attempts are the calls that the job has had, on this node and before. The record of a
// retry topic holds them, and so does the commit of a node that failed with the job.
// [Delivery.SetAttempts] and [Delivery.Sleep] replace them.
func (d *Delivery) Attempts() offsets.Attempts {
	s := d.part.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	return d.attempts
}

// FromRetryTopic tells whether the job came through a retry topic.
func (d *Delivery) FromRetryTopic() bool { return d.part.src.Delay > 0 }

// FirstWritten is when the job was first written to Kafka. The record of a job that was
// replayed, or came through a retry topic, says so.
func (d *Delivery) FirstWritten() time.Time { return deadletter.FirstWritten(&d.Job.Record) }

// Lane is the name of the job's lane.
func (d *Delivery) Lane() string { return d.part.src.Lane.name }

// JobTopic is the topic of jobs that it came from, also where it came through a retry topic.
func (d *Delivery) JobTopic() string { return d.part.src.JobTopic }

// FirstTopic is the topic that the job was first written to, likewise.
func (d *Delivery) FirstTopic() string { return deadletter.FirstID(&d.Job.Record).Topic }

// Redrives is how often the job was replayed from the dead letters.
func (d *Delivery) Redrives() int { return deadletter.Redrives(&d.Job.Record) }

// Memo is what the last [Delivery.Sleep] left; nil: the job has not slept.
func (d *Delivery) Memo() any {
	if d.wait == nil {
		return nil
	}
	return d.wait.memo
}

// Note is what [Delivery.SetNote] left; nil: nothing.
func (d *Delivery) Note() any { return d.note }

// SetNote leaves something with the job for whoever takes it next on this node, once it was put
// back or deferred. The consumer does not read it.
func (d *Delivery) SetNote(note any) { d.note = note }

// SetSlot notes for when the job was granted a slot; see Stay of package status.
func (d *Delivery) SetSlot(at time.Time) { d.slot.Store(at.UnixNano()) }

// Slot is what [Delivery.SetSlot] noted last; zero: nothing.
func (d *Delivery) Slot() time.Time {
	if at := d.slot.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Context ends when the job's partition is taken away or the consumer stops; its cause says
// why, as [lifetime.ErrRevoked] and [lifetime.ErrStopped] do. A job that still waits then without a slot is to be released. A
// call that is in flight goes on.
func (d *Delivery) Context() context.Context { return d.part.asg.Context() }

// Ended is when [Delivery.Context] ended; zero: it has not.
func (d *Delivery) Ended() time.Time { return d.part.asg.Ended() }

// Calls ends a little later than [Delivery.Context], with the same cause: see [lifetime.Lifetime.Calls]. Until then a worker
// calls a job that has a slot.
func (d *Delivery) Calls() context.Context { return d.part.asg.Calls() }

// TimedOut tells whether the job was taken too long ago, so that it went to a retry topic or to the dead
// letters, while the worker still has it. The worker must not call it any more, and releases it.
func (d *Delivery) TimedOut() bool {
	s := d.part.sched
	if s.opts.JobTimeout == 0 {
		return false
	}
	s.mu.Lock()
	defer s.unlock()
	return d.state.Late()
}

// SetAttempts notes the job's attempts so far. Once one of them has failed, the next commit
// passes them to the next owner of the partition.
func (d *Delivery) SetAttempts(a offsets.Attempts) {
	s := d.part.sched
	s.mu.Lock()
	defer s.unlock()
	d.setAttempts(a)
}

// CountFailure counts one more failure of a call that was made before: only now is the
// failure attributed to the job. It may be called at any time.
func (d *Delivery) CountFailure() {
	s := d.part.sched
	s.mu.Lock()
	defer s.unlock()
	d.setAttempts(offsets.Attempts{Calls: d.attempts.Calls, Failures: d.attempts.Failures + 1})
}

// setAttempts has the tracker commit them, unless the job has timed out or is settled. The
// lock is held.
func (d *Delivery) setAttempts(a offsets.Attempts) {
	a.Failures = max(a.Failures, d.attempts.Failures) // the worker may not know of a CountFailure yet
	d.attempts = a
	if !d.state.Late() && d.state != states.Over {
		d.part.tracker.SetAttempts(d.Job.Offset, a)
	}
}

// failedBefore tells whether a call of the job failed, here or before.
func (d *Delivery) failedBefore() bool { return d.failed || d.attempts != offsets.Attempts{} }

// expired tells whether the job's not-after has passed. Most jobs have none, and cost no reading of the clock.
func (d *Delivery) expired() bool { return !d.Job.NotAfter.IsZero() && d.Job.Expired(time.Now()) }

// on moves the delivery on. It returns the state before, and whether the event had an
// effect. The lock is held.
func (d *Delivery) on(e states.Event) (before states.State, ok bool) {
	before = d.state
	after, ok := before.Next(e)
	if ok {
		d.state = after
		switch is := after.Queued(); {
		case is == before.Queued():
		case is:
			d.count(1)
		default:
			d.count(-1)
		}
	}
	return before, ok
}

// comes gives a job that was fetched the next place of its lane, and counts it. Jobs of retry topics have no place: they wait
// for their time.
func (d *Delivery) comes() {
	d.number = d.part.src.Lane.backlog.Next()
	d.count(1)
}

// count counts a job that waits for its turn from now on, or with -1 no more.
func (d *Delivery) count(n int) {
	if d.part.src.Delay == 0 {
		d.part.src.Lane.backlog.Count(backlog.Job{Place: d.number, Units: d.turns(), NotAfter: d.Job.NotAfter}, n)
	}
}

// goes counts a job no more that is dropped.
func (d *Delivery) goes() {
	if d.state.Queued() {
		d.count(-1)
	}
}

// SourceOf is the topic that a job came from. It is a function since workers don't need it.
func SourceOf(d *Delivery) *Source { return d.part.src }

// LifetimeOf is that of the assignment of a job's partition.
func LifetimeOf(d *Delivery) *lifetime.Lifetime { return d.part.asg.Lifetime }

// Step logs at level debug that the job has come to a step, with its id and its place, and
// never its payload or key. It allocates nothing where that level is not logged.
func (d *Delivery) Step(step string, attrs ...slog.Attr) {
	d.part.sched.log.Write(&d.Job, step, attrs...)
}

// noteStep has a step logged once the lock is free. An empty attribute is not logged. The
// lock is held.
func (d *Delivery) noteStep(name string, attr slog.Attr) {
	s := d.part.sched
	s.steps.Note(s.log, &d.Job, name, attr)
}

// logFetched logs that jobs were fetched.
func (s *Scheduler) logFetched(jobs []*Delivery) {
	if !s.log.On() {
		return
	}
	for _, d := range jobs {
		if due := d.due(); !due.IsZero() {
			d.Step("fetched, waits for its time", slog.Time("until", due))
			continue
		}
		d.Step("fetched")
	}
}
