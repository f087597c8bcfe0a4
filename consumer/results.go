package consumer

import (
	"context"
	"sync/atomic"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/produce"
)

// Outcome is what became of a job, for its record on <topic>.results.
type Outcome struct {
	// Result is one of the job.Result constants. Empty: accepted or, beside a
	// dead letter, what its class says.
	Result    string
	Status    int       // HTTP status of the last call; 0: none
	MessageID string    // what the provider calls the message; empty: not known
	Attempts  int       // calls that left the process
	SentAt    time.Time // when the last call was written; zero: never
	Error     string    // for people; never holds the payload
}

// Results settles jobs and says on <topic>.results what became of each. A job
// is settled only when Kafka has its result: what a crash leaves unwritten is
// worked again, so that no result is lost and some may come twice.
//
// Nobody waits for that but the job itself. Kafka's client gathers results and
// writes them in batches beside the workers; at most as many wait as jobs are in
// hand. While a results topic can't be written its jobs stay open, and once all in
// hand are, nothing more is handed out.
//
// All methods are safe to call from any goroutine. Those of a nil Results
// settle at once and write nothing.
type Results struct {
	writer  *produce.Writer
	metrics *resultMetrics
	reports *writeReports
	node    string
	waiting atomic.Int64
}

// Done settles the job as [Delivery.Done] does, once Kafka has its result. It
// does not block. If the result is not written when the drain ends the job is
// returned.
func (r *Results) Done(d *Delivery, o Outcome) {
	if r == nil {
		d.Done()
		return
	}
	if d.part.hub.claim(d) {
		r.write(d.part.asg.life, r.record(d, o, ""), d, func(written bool) {
			if written {
				d.Done()
			} else {
				d.Release()
			}
		})
	}
}

// Dead writes the job's result and then does as [Delivery.Dead] does. It blocks
// as that does; if the result is not written when the drain ends the job is
// returned.
func (r *Results) Dead(d *Delivery, f deadletter.Failure, o Outcome) {
	if r == nil {
		d.Dead(f)
		return
	}
	if !d.part.hub.claim(d) {
		return
	}
	written := make(chan bool, 1)
	r.write(d.part.asg.life, r.record(d, o, f.Class), d, func(yes bool) { written <- yes })
	if r.await(d.part.asg, written) {
		d.Dead(f)
	} else {
		d.Release()
	}
}

// await is false as well once the assignment is over.
func (r *Results) await(a *assignment, written <-chan bool) bool {
	select {
	case yes := <-written:
		return yes
	case <-a.life.Done():
		return false
	}
}

// owes tells whether a letter ends a job that has a result. What could not be
// read has no id, and no result; what is only delayed has none yet.
func (r *Results) owes(l *letter) bool { return r != nil && l.d.Job.ID != "" && !l.delayed() }

// before writes the results of letters that no worker sees, all at once, and
// returns those that may go on. Of those that are known not to be written when ctx
// ends the jobs are returned: nobody is working them, and the drain is not to be
// held up for them.
func (r *Results) before(ctx context.Context, letters []letter) (kept []letter) {
	outcomes := make([]chan bool, len(letters))
	for i := range letters {
		l := &letters[i]
		outcomes[i] = make(chan bool, 1)
		record := r.record(l.d, Outcome{Attempts: l.f.Attempt, Error: l.f.Message}, l.f.Class)
		r.write(ctx, record, l.d, func(yes bool) { outcomes[i] <- yes })
	}
	for i, written := range outcomes {
		d := letters[i].d
		if r.await(d.part.asg, written) {
			kept = append(kept, letters[i])
		} else {
			d.part.hub.settle(d, false)
		}
	}
	return kept
}

// write brings a result on its way. A result that is too large goes once more
// under the job's id, since nothing but the key can be large.
func (r *Results) write(ctx context.Context, record *resultRecord, d *Delivery, end func(written bool)) {
	r.waiting.Add(1)
	o := &produce.Request{Record: &record.Record, Context: ctx}
	o.Done = func(err error) {
		r.waiting.Add(-1)
		switch {
		case broker.TooLarge(err) && len(record.Key) > len(d.Job.ID):
			record.Key = []byte(d.Job.ID)
			r.write(ctx, record, d, end)
			return
		case err == nil:
			r.metrics.written.WithLabelValues(record.result).Inc()
		}
		r.reports.over(o)
		end(err == nil)
	}
	d.part.asg.write(r.writer, o)
}
