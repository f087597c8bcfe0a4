package consumer

import (
	"context"
	"log/slog"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer/internal/offsets"

	"dispatcher/job"
)

// Delivery is one job in hand. Exactly one of Done, Dead, Later, Sleep, PutBack and Return is
// to be called, once; what comes after the first, or after the job
// has been in hand for too long, has no effect. All methods are safe
// to call from any goroutine.
type Delivery struct {
	Job job.Job

	part *partition
	next *Delivery // in the buffer, or among those that were freed
	heir *Delivery // the next job of its chain, which waits for this one
	key  uint64    // its chain: the hash of the key, or 1 for the partition; 0: none
	size int       // bytes it holds in memory
	hop  *hop      // what there is to wait for; nil: nothing
	doom *letter   // why it goes to the dead letters; such a delivery is never handed out

	// Guarded by the hub's lock.
	older    *Delivery // its neighbours among the partition's open jobs
	newer    *Delivery
	chained  bool // in the chain
	settled  bool
	attempts offsets.Attempts // what it has been through, as a tier, a former owner or its worker said last
	memo     any              // what its worker left when it went to sleep
	failed   bool             // it sleeps or slept since it was tried in vain
	timedOut bool             // expelled: in hand for too long
	left     bool             // and its worker has let go of it
}

// hop is what a delivery waits for, where it does.
type hop struct {
	due  time.Time // not to be handed out before; zero: at once
	gate time.Time // of a tier's record: not to be looked at before
}

// Attempts is what the job has been through, on this node and before: a retry tier's
// record tells it, and so does the commit of a node that failed with it. What
// [Delivery.SetAttempts] and [Delivery.Sleep] say replaces it.
func (d *Delivery) Attempts() offsets.Attempts { return d.attempts }

// FromRetryTopic tells whether the job came through a retry topic.
func (d *Delivery) FromRetryTopic() bool { return d.part.tier > 0 }

// FirstWritten is when the job was first written to Kafka. A record that was
// replayed, or comes from a retry topic, says so.
func (d *Delivery) FirstWritten() time.Time { return deadletter.FirstWritten(&d.Job.Record) }

// FirstTopic is the topic that the job was first written to, likewise.
func (d *Delivery) FirstTopic() string { return deadletter.FirstPlace(&d.Job.Record).Topic }

// Redrives is how often the job was replayed from the dead letters.
func (d *Delivery) Redrives() int { return deadletter.Redrives(&d.Job.Record) }

// expired tells whether the job's not-after has passed.
func (d *Delivery) expired() bool {
	return !d.Job.NotAfter.IsZero() && time.Now().After(d.Job.NotAfter)
}

// expiry is what a dead letter says of a job that is too late.
func expiry(d *Delivery) *letter {
	return &letter{d: d, f: deadletter.Failure{Class: deadletter.ClassExpired, Attempt: d.Attempts().Calls}}
}

// Context ends when the job's partition is taken away or the consumer stops;
// its cause is [ErrRevoked] or [ErrStopped]. A job that still waits then is to
// be returned; a call on the wire goes on.
func (d *Delivery) Context() context.Context { return d.part.asg.ctx }

// Answered says that what became of the job is known, and that it will be settled
// once that is written down somewhere: from now on it is not in hand for too long.
func (d *Delivery) Answered() { d.part.hub.claim(d) }

// Done settles the job: its offset counts as complete.
func (d *Delivery) Done() {
	d.Step("settled", slog.String("result", "done"))
	d.part.hub.answer(d, true)
}

// Dead writes the record to the dead-letter topic and, once Kafka has
// acknowledged it, settles it. It blocks, and Kafka's client tries again, until that
// is done or Context ends; then the job is returned. A record that may have been
// written when Context ends is awaited as long as the drain lasts, as a call on the
// wire is. After that the job stays open.
func (d *Delivery) Dead(f deadletter.Failure) {
	d.Step("goes to the dead letters", slog.String("class", string(f.Class)), slog.String("code", f.Code), slog.String("error", f.Message))
	if h := d.part.hub; h.claim(d) {
		h.dead.bury(d.part.asg.letters, []letter{{d: d, f: f}})
	}
}

// Release gives the job back unsent: its offset stays open and another node,
// or this one later, gets it again. Until then no later job of its key (in
// partition order: of its partition) is handed out on this node, or it would be
// overtaken.
func (d *Delivery) Release() {
	d.Step("given back unsent")
	d.part.hub.answer(d, false)
}
