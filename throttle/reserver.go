package throttle

import (
	"cmp"
	"context"
	"sync"
	"time"

	"dispatcher/internal/redisclient"
	"dispatcher/throttle/internal/binding"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/inquiry"
	"dispatcher/throttle/internal/lease"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/limit"
)

const (
	spare      = 5 * time.Millisecond // how far ahead a node works beyond the way to Redis and back
	idleEvery  = 4 * time.Second      // between polls of a node that is notified of changes; scripts take it for gone after ALIVE, 9 s
	reportMost = 2 * time.Second      // between records of a node that reserves, and so does not poll
	nearest    = time.Millisecond     // about the way back from Redis: a nearer slot would be late

	callTimeout = redisclient.Timeout
	retryFirst  = 20 * time.Millisecond // after a call that failed
	retryMost   = 200 * time.Millisecond
)

// reserver is the state of the reserving goroutine; nobody else touches it.
type reserver struct {
	*Limiter
	clock    clock.Clock
	known    limit.Settings  // the newest settings seen
	kind     limit.Algorithm // that keeps them
	lanes    []lane          // one where jobs have none
	bindings []binding.Share // of the first limit, and of the gates
	slept    time.Duration   // for how long the host had been suspended before the last call
	lost     int64           // jobs that may have been granted a slot by replies that were lost
	lostAt   time.Time       // the newest of these replies
	calls    int64           // of the script
	cut      bool            // calls in flight left no room at the last reservation
	freedAt  time.Time       // since then calls are over that Redis counts for this node; zero: none
	pollAt   time.Time       // the script asks this node to poll by then
	saidAt   time.Time       // last record
	helloAt  time.Time       // last call that asked for a message to this node alone
	learned  bool            // known came from Redis and not only from the file
	seq      int64           // of the next reservation; unchanged while a reply is missing
	stepped  bool            // the clock stepped, and the script does not know yet
	pollNow  bool            // the settings have changed, or the script must know that the node learned them

	calledAt   time.Time     // last call
	answeredAt time.Time     // last call that was answered
	redisNow   int64         // on Redis's clock then, in µs; 0: none was
	reservedAt time.Time     // last reservation, of any lane
	retryAt    time.Time     // no call until then: one failed, or read the clock too widely
	beginsAt   time.Time     // no reservation before: this node has just started
	rtt        time.Duration // to Redis and back, the shortest of late
	failures   int           // calls in a row
	wide       int           // readings in a row that left the mapping too wide
	refusing   bool          // the last failure was a refusal

	lease lease.Lease // of the reserve

	turn   inquiry.Inquiry[Lanes, Room]     // of the caller that waits for its turn; no reply: none does
	ready  Lanes                            // of which the caller had jobs when it last waited for its turn
	turnAt time.Time                        // the last turn that was given
	again  []inquiry.Inquiry[Request, Slot] // of jobs that missed their slots

	most  int64 // slots that the node asks for at once: less than a block after it was late
	given int64 // jobs that got a slot by the last reservation

	passing []slots.Correction // that the last call passed on

	opensAt time.Time // of a cooldown: nothing is granted before
}

// Run reserves slots until the context ends; it returns nil then. Call it once.
// Slots that are still out stay good until their time is over.
func (l *Limiter) Run(ctx context.Context) error {
	r := &reserver{
		Limiter:  l,
		clock:    clock.Clock{Origin: time.Now()},
		known:    l.State().Settings,
		seq:      1,
		lanes:    make([]lane, max(1, len(l.opts.MinShares))),
		bindings: make([]binding.Share, 1+len(l.opts.Gates)),
	}
	r.kind, _ = limit.AlgorithmNamed(r.known.Algorithm) // checked by New
	r.refunds.Store(r.kind.Refunds)
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
		case r.turn = <-l.turns:
			r.ready = r.turn.Q
		case b := <-l.batches:
			r.turnAt = time.Time{}
			if answers := r.serve(ctx, r.laneOf(b.Q), b.Q); !b.Answer(answers) {
				r.waste(answers)
			}
		case w := <-l.retries:
			r.again = append(r.again, w)
		case <-l.freed:
			r.freedAt = cmp.Or(r.freedAt, time.Now())
			if r.cut { // now there is room for a call
				r.allLanes(func(l *lane) { l.refusedUntil, l.less = time.Time{}, false })
			}
		case <-l.changed:
			r.pollNow = true
		case <-l.corrected:
		}
		timer.Reset(r.step(ctx, time.Now()))
	}
}

// step gives a caller its turn and makes the calls that are due without one. It returns
// how long nothing is to be done, unless somebody asks.
func (r *reserver) step(ctx context.Context, now time.Time) time.Duration {
	r.heedRefunds(now)
	r.noteBindings(now)
	next, due := r.nextTurn(now)
	turn := !due.After(now)
	switch poll := !r.pollDue(now).After(now); {
	case poll && !r.turnIsOut(now) && (!turn || !r.lane(next).place.Taken): // a poll gives the place up
		r.call(ctx, r.placed(), nil)
	case turn && !r.turn.IsZero() && r.turn.Q.has(next):
		if r.turn.Answer(r.room(next, now)) {
			r.turnAt = now
		}
		r.turn = inquiry.Inquiry[Lanes, Room]{}
		return minGap // its batch comes at once
	case turn && len(r.again) > 0 && !r.turnIsOut(now):
		r.serve(ctx, next, nil)
	}
	r.renewLease(ctx)
	r.reportDue(ctx, time.Now())
	return r.idle(time.Now())
}

// idle is how long nothing is to be done, unless somebody asks.
func (r *reserver) idle(now time.Time) time.Duration {
	_, due := r.nextTurn(now)
	due = clock.Earlier(due, r.pollDue(now))
	if report := r.reports.feedback.Due(r.reservedAt, now); !report.IsZero() && r.reports.working {
		due = clock.Earlier(due, report)
	}
	if r.turnIsOut(now) {
		due = clock.Later(due, now.Add(minGap))
	}
	return max(0, due.Sub(now))
}

// turnLasts is for how long the batch of a turn is awaited: its caller may open a
// connection first.
const turnLasts = 100 * time.Millisecond

// turnIsOut reports whether a batch is to come soon. It keeps the node's place in the
// queue, which a poll would give up, and takes those along that ask again.
func (r *reserver) turnIsOut(now time.Time) bool {
	return r.turn.IsZero() && r.turnAt.After(r.reservedAt) && now.Sub(r.turnAt) < turnLasts
}

// question is the next call, for jobs of a lane.
func (r *reserver) question(number int, asked []request, now time.Time) script.Ask {
	l := r.lane(number)
	place := l.place
	place.Due = !now.Before(l.refusedUntil)
	r.passing = nil
	if r.lost == 0 || len(asked) == 0 { // a reservation that comes again does nothing but that
		r.passing = r.corrections.Take(r.clock.Epoch, r.gates.Outlives)
	}
	report := now.Sub(r.saidAt) >= reportMost
	var binds []float64
	if report || len(asked) == 0 { // the call writes the node's record
		binds = r.bindsOf()
	}
	return script.Ask{
		Want: r.wanted(asked, now), Gates: r.gatesOf(asked, r.passing), Corrections: r.firstOf(r.passing), Costs: costsOf(asked), Busy: r.inFlight(asked), Hold: r.hold(), Call: r.calls, Seq: r.seq, Retry: r.lost > 0, Epoch: r.clock.Epoch, Stepped: r.stepped, Since: r.clock.Since, Read: r.clock.Trusted,
		Identity: string(r.opts.Identity), Nearest: nearest, Reach: r.reach(), Refuses: r.refuses(), Place: place, Lane: r.laneOfCall(number),
		Report: report, Binds: binds,
		Hello:   r.notices.Subscribed.Load() && !r.notices.Notified.Load() && now.Sub(r.helloAt) >= limit.PollMost,
		Learned: r.learned, Known: r.known,
	}
}

// firstOf is what a call says of corrections to the first limit.
func (r *reserver) firstOf(all []slots.Correction) (corrected []script.Correction) {
	for _, c := range all {
		if units := c.OnFirst(); units < 0 || units > 0 && r.kind.Refunds && c.Epoch == r.clock.Epoch {
			corrected = append(corrected, script.Correction{Slot: c.At, Units: units})
		}
	}
	return corrected
}

// call runs the script once for jobs of a lane, and writes the answers. Without requests it is a
// poll, which gives the place in the lane's queue up.
func (r *reserver) call(ctx context.Context, number int, requests []request) {
	cctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	asked := time.Now()
	r.slept = r.slots.Suspended()
	r.calls++
	r.freedAt = time.Time{}
	a := r.question(number, requests, asked)
	reply, err := r.reserve(cctx, a)
	answered := time.Now()
	r.calledAt = answered
	r.pollNow = false
	if err != nil {
		if len(requests) > 0 {
			r.lost, r.lostAt = max(r.lost, int64(len(requests))), asked
		}
		if a.Choosing() {
			r.abandon() // its slots belong to their jobs
		}
		r.corrections.ChargeAgain(r.passing)
		r.failed(ctx, err, answered)
		return
	}
	if reply.Epoch != a.Epoch { // a cooldown heeds none, and empties the queues
		r.allLanes(func(l *lane) { l.place = script.Place{} })
		r.corrections.Unheeded(r.passing)
	}
	if r.failures > 0 {
		r.allLanes(func(l *lane) { l.last = time.Time{} }) // of the lease: Redis's slots come before
	}
	r.answeredAt, r.redisNow = answered, reply.Now
	r.failures, r.retryAt, r.refusing = 0, time.Time{}, false
	r.noteTrip(answered.Sub(asked))
	r.noteSaid(a, asked)
	r.metrics.Called(a.Want, reply, answered.Sub(asked))
	if r.clock.Epoch == 0 {
		r.beginsAt = answered.Add(reply.Settings.PollInterval())
	}
	r.observe(clock.Reading{Asked: asked, Answered: answered, Now: reply.Now, Epoch: reply.Epoch})
	isNew := !r.learned && reply.Cooldown == script.CooldownSettingsLost
	larger := r.known.LargestCost()
	r.take(reply)
	r.takeGates(reply)
	r.slowDown(reply.Slowdown, answered)
	forgotten := asked.Sub(r.lostAt) > r.hold() // the script knows of it no more
	if a.Want == 0 && (r.known.LargestCost() > larger || forgotten) {
		r.abandon()
	}
	if a.Want > 0 {
		r.receive(number, requests, a, reply, answered)
		r.turnAway(requests, reply)
		r.lost = 0
	}
	r.report(reply, answered, isNew)
}

// inFlight is how many calls the node has in flight, as the script counts them beside those
// that are asked for. A reservation comes again where its reply was lost; until then its
// slots count.
func (r *reserver) inFlight(asked []request) int64 {
	if len(asked) > 0 {
		return r.busy.Load()
	}
	return r.busy.Load() + r.lost
}

// abandon gives up a reservation whose reply was lost. Its slots lie as close to each other
// as jobs allowed that were smaller than those that would get them now.
func (r *reserver) abandon() {
	if r.lost > 0 {
		r.seq, r.lost = r.seq+1, 0
	}
}

// hold is after which time a call is over that is granted now.
func (r *reserver) hold() time.Duration {
	return r.known.Reaction() + r.opts.CallTimeout + time.Second
}

// observe takes a reading of Redis's clock in. After a step all slots that are out are given
// up: it may be this node's clock that stood still.
func (r *reserver) observe(reading clock.Reading) {
	if r.stepped = r.clock.Observe(reading); r.stepped {
		r.log.Warn("clock step seen, of redis or of this host; slots that are held are dropped")
		r.giveUp()
	}
}

// noteSaid notes what an answered call reported to Redis.
func (r *reserver) noteSaid(a script.Ask, now time.Time) {
	r.pollAt = time.Time{}
	if a.Want == 0 {
		r.lanes[a.Lane.Number].place = script.Place{} // a poll gives it up
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
	a := r.question(r.placed(), nil, time.Now())
	for _, more := r.corrections.Waiting(); more; _, more = r.corrections.Waiting() {
		if _, err := r.reserve(cctx, a); err != nil {
			break // the last call says it
		}
		a = r.question(r.placed(), nil, time.Now())
	}
	a.Leaves = true
	if _, err := r.reserve(cctx, a); err != nil {
		r.log.Info("node could not sign off at redis; it counts as missing after some seconds", "error", err)
	}
}

// redisTime is about the time on Redis's clock.
func (r *reserver) redisTime(now time.Time) time.Time {
	if r.redisNow == 0 {
		return now
	}
	return limit.FromMicros(r.redisNow).Add(now.Sub(r.answeredAt))
}

// noteTrip follows the shortest of late: one slow reply does not make Redis far.
func (r *reserver) noteTrip(took time.Duration) {
	if r.rtt == 0 || took < r.rtt {
		r.rtt = took
		return
	}
	r.rtt += (took - r.rtt) / 16
}
