package throttle

import (
	"context"
	"sync"
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

const (
	spare      = 5 * time.Millisecond // how far ahead a node works beyond the way to Redis and back
	idleEvery  = 4 * time.Second      // between polls of a node that is notified of changes; scripts take it for gone after ALIVE, 9 s
	reportMost = 2 * time.Second      // between records of a node that reserves, and so does not poll
	lead       = time.Millisecond     // about the way back from Redis: a nearer slot would be late

	callTimeout = 250 * time.Millisecond
	retryFirst  = 20 * time.Millisecond // after a call that failed
	retryMost   = 200 * time.Millisecond
)

// reserver is the state of the reserving goroutine; nobody else touches it.
type reserver struct {
	*Limiter
	clock   clock.Clock
	known   limit.Settings  // the newest settings seen
	kind    limit.Algorithm // that keeps them
	place   script.Place    // in the queue of refused nodes; due from refusedUntil on
	slept   time.Duration   // for how long the host had been suspended before the last call
	lost    bool            // the reply to the last reservation may have been lost
	pollAt  time.Time       // the script asks this node to poll by then
	saidAt  time.Time       // last record
	helloAt time.Time       // last call that asked for a message to this node alone
	learned bool            // known came from Redis and not only from the file
	seq     int64           // of the next reservation; unchanged while a reply is missing
	stepped bool            // the clock stepped, and the script does not know yet
	pollNow bool            // the settings have changed, or the script must know that the node learned them

	calledAt     time.Time     // last call
	reservedAt   time.Time     // last reservation
	refusedUntil time.Time     // no reservation until then
	retryAt      time.Time     // no call until then: one failed, or read the clock too widely
	settledAt    time.Time     // no reservation before: this node has just started
	rtt          time.Duration // to Redis and back, the shortest of late
	failures     int           // calls in a row
	wide         int           // readings in a row that left the mapping too wide
	refusing     bool          // the last failure was a refusal

	lease  lease // of the reserve
	leased bool  // slots of it are in the wait queue

	reporter lateReporter

	most  int64 // slots that the node asks for at once: less than a block after it was late
	given int64 // by the last reservation
	less  bool  // than it asked for: all that may be reserved is
	late  int64 // slots that were late since then
}

// Run reserves slots until the context ends; it returns nil then. Call it once.
// Slots that are still held are lost with it.
func (l *Limiter) Run(ctx context.Context) error {
	r := &reserver{
		Limiter: l,
		clock:   clock.Clock{Origin: time.Now()},
		known:   l.State().Settings,
		seq:     1,
	}
	r.kind, _ = limit.AlgorithmNamed(r.known.Algorithm) // checked by New
	r.most = r.blockSize()
	if l.opts.Identity == IdentityNone {
		l.log.Warn("failover would go unnoticed: this redis can't tell which master it is")
	}
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { l.listen(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.giveLeaseUp(ctx)
			r.leave(ctx)
			return nil
		case <-timer.C:
		case <-l.wake:
		case <-l.changed:
			r.pollNow = true
		}
		timer.Reset(r.step(ctx, time.Now()))
	}
}

// step makes at most one call and returns how long nothing is to be done,
// unless a caller begins to wait.
func (r *reserver) step(ctx context.Context, now time.Time) time.Duration {
	r.useLease(now)
	want, due := r.plan(now)
	if d := due.Sub(now); d > 0 {
		return d
	}
	r.call(ctx, want)
	r.renewLease(ctx)
	r.reportLate(ctx)
	_, due = r.plan(time.Now())
	return max(0, time.Until(due))
}

// question is the next call.
func (r *reserver) question(want int64, now time.Time) script.Ask {
	place := r.place
	place.Due = !now.Before(r.refusedUntil)
	return script.Ask{
		Want: want, Seq: r.seq, Retry: r.lost, Epoch: r.clock.Epoch, Stepped: r.stepped, Since: r.clock.Since, Read: r.clock.Trusted,
		Identity: string(r.opts.Identity), Lead: lead, Reach: r.reach(), Refuses: r.refuses(), Place: place,
		Report:  now.Sub(r.saidAt) >= reportMost,
		Hello:   r.subscribed.Load() && !r.notified.Load() && now.Sub(r.helloAt) >= limit.PollMost,
		Learned: r.learned, Known: r.known,
	}
}

// call runs the script once and handles its reply.
func (r *reserver) call(ctx context.Context, want int64) {
	cctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	asked := time.Now()
	r.slept = r.host.suspended()
	a := r.question(want, asked)
	reply, err := r.reserve(cctx, a)
	answered := time.Now()
	r.calledAt = answered
	r.pollNow = false
	if err != nil {
		r.lost = r.lost || want > 0
		r.failed(ctx, err, answered)
		return
	}
	r.failures, r.retryAt, r.refusing = 0, time.Time{}, false
	r.dropLeased()
	r.noteTrip(answered.Sub(asked))
	r.noteSaid(a, asked)
	r.metrics.called(want, reply, answered.Sub(asked))
	if r.clock.Epoch == 0 {
		r.settledAt = answered.Add(reply.Settings.PollInterval())
	}
	if r.stepped = r.clock.Observe(clock.Reading{Asked: asked, Answered: answered, Now: reply.Now, Epoch: reply.Epoch}); r.stepped {
		r.log.Warn("clock step seen, of redis or of this host; slots that are held are dropped")
		r.noteLate(r.queue.drop()) // it may be this node's clock that stood still
	}
	isNew := !r.learned && reply.Cooldown == script.CooldownSettingsLost
	r.take(reply)
	if want > 0 {
		r.receive(want, reply, answered)
		r.turnAway(want-reply.Schedule.Given, reply, answered)
		r.lost = false
	}
	r.report(reply, answered, isNew)
}

// noteSaid notes what an answered call reported to Redis.
func (r *reserver) noteSaid(a script.Ask, now time.Time) {
	r.pollAt = time.Time{}
	if a.Want == 0 {
		r.place = script.Place{} // a poll gives it up
	}
	if a.Want == 0 || a.Report {
		r.saidAt = now
	}
	if a.Hello {
		r.helloAt = now
	}
}

// leave removes the node's record at a graceful end. At any other end the scripts
// take the node for dead after some seconds.
func (r *reserver) leave(ctx context.Context) {
	if r.clock.Epoch == 0 || r.failures > 0 {
		return
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	a := r.question(0, time.Now())
	a.Leaves = true
	if _, err := r.reserve(cctx, a); err != nil {
		r.log.Info("node could not sign off at redis; it counts as missing after some seconds", "error", err)
	}
}

// noteTrip follows the shortest of late: one slow reply does not make Redis far.
func (r *reserver) noteTrip(took time.Duration) {
	if r.rtt == 0 || took < r.rtt {
		r.rtt = took
		return
	}
	r.rtt += (took - r.rtt) / 16
}
