package throttle

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// How the booking goroutine paces itself. Slots are booked in blocks, so that
// the number of calls does not depend on the rate: one block of 20 ms makes
// about 50 calls a second for the whole fleet.
const (
	block      = 20 * time.Millisecond  // slots that one call books, at most; more where Redis is further away than that
	prefetch   = 10 * time.Millisecond  // before the last held slot, the next block is booked; likewise
	spare      = 5 * time.Millisecond   // of both, beyond the way to Redis and back
	minGap     = 5 * time.Millisecond   // between calls that book less than a block, so that demand gathers
	lookEvery  = 200 * time.Millisecond // without bookings: a poll of the settings and the clock, at rates that are not low
	lookMost   = 2 * time.Second        // the same at any rate
	idleEvery  = 4 * time.Second        // between polls of a node that hears of changes; book.lua takes it for gone after twice that
	reportMost = 2 * time.Second        // between reports of a node that reserves, and so does not poll
	lead       = time.Millisecond       // about the way back from Redis: a nearer slot would be late

	callTimeout = 250 * time.Millisecond
	retryFirst  = 20 * time.Millisecond // after a call that failed
	retryMost   = 200 * time.Millisecond
)

// booker is the state of the booking goroutine; nobody else touches it.
type booker struct {
	*Limiter
	clock   clock
	known   Settings      // the newest settings seen
	kind    Algorithm     // that keeps them
	place   place         // in the queue of refused nodes; due from refusedUntil on
	slept   time.Duration // for how long the host had been suspended before the last call
	lost    bool          // the reply to the last booking may have been lost
	pollAt  time.Time     // the script wants to hear from this node sooner
	saidAt  time.Time     // last report
	helloAt time.Time     // last call that asked for a word to itself
	learned bool          // by Redis and not only from the file
	seq     int64         // of the next booking; unchanged while a reply is missing
	stepped bool          // the clock stepped and the script has to be told
	tell    bool          // a look is due at once: the settings have changed, or the script has to hear that the node knows them

	calledAt     time.Time     // last call, for the look
	bookedAt     time.Time     // last booking, for the gap
	refusedUntil time.Time     // no booking until then
	retryAt      time.Time     // no call until then: one failed, or read the clock too widely
	settledAt    time.Time     // no booking before: this node has just come
	rtt          time.Duration // to Redis and back, of late at best
	failures     int           // calls in a row
	wide         int           // readings in a row that left the mapping too wide
	refusing     bool          // the last failure was a refusal

	mine share // of the reserve
	lent bool  // slots of it are in the line

	reporter lateReporter

	most  int64 // slots that the node asks for at once: less than a block after it was late
	given int64 // by the last booking
	less  bool  // than it asked for: all that may be booked is
	late  int64 // slots that were late since then
}

// Run books slots until the context ends; it returns nil then. It is to be
// called once. Slots that are still held are lost with it.
func (l *Limiter) Run(ctx context.Context) error {
	b := &booker{
		Limiter: l,
		clock:   clock{origin: time.Now()},
		known:   l.State().Settings,
		seq:     1,
	}
	b.kind, _ = AlgorithmNamed(b.known.Algorithm) // checked by New
	b.most = b.blockSize()
	if l.opts.Identity == IdentityNone {
		l.log.Warn("limiter is unfenced: this redis can't tell which master it is, and a failover would go unseen")
	}
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { l.listen(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			b.leaveShare(ctx)
			b.leave(ctx)
			return nil
		case <-timer.C:
		case <-l.wake:
		case <-l.changed:
			b.tell = true
		}
		timer.Reset(b.step(ctx, time.Now()))
	}
}

// step makes at most one call and returns how long nothing is to be done,
// unless somebody begins to wait.
func (b *booker) step(ctx context.Context, now time.Time) time.Duration {
	b.lend(now)
	want, due := b.plan(now)
	if d := due.Sub(now); d > 0 {
		return d
	}
	b.call(ctx, want)
	b.askShare(ctx)
	b.reportLate(ctx)
	_, due = b.plan(time.Now())
	return max(0, time.Until(due))
}

// plan says how many slots are wanted and when the next call is due.
func (b *booker) plan(now time.Time) (want int64, due time.Time) {
	st := b.line.state(now)
	b.noteLate(st.late)
	b.metrics.held.Set(float64(st.held))
	look := b.calledAt.Add(b.lookInterval())
	if !b.pollAt.IsZero() && b.pollAt.Before(look) {
		look = b.pollAt
	}
	switch {
	case b.clock.epoch == 0 || b.stepped || b.tooWide(now) || b.lending(now):
		return 0, b.retryAt
	case now.Before(b.settledAt):
		// Until every other node has looked once, a step of Redis's clock just
		// before this node came is not noticed; only then is its reading good.
		return 0, later(b.retryAt, b.settledAt)
	}
	want = b.wanted(st)
	if b.tell {
		return 0, b.retryAt
	}
	if want <= 0 {
		return 0, later(look, b.retryAt)
	}
	due = later(b.retryAt, b.bookingDue(st, want))
	// A look that falls due meanwhile asks as well, and keeps the node's turn.
	if look.Before(due) {
		due = later(look, b.retryAt)
	}
	return want, due
}

// maxPour is how much is poured into a bucket at once.
const maxPour = 4096

// wanted is how many slots the next booking asks for. Those that are given for
// now are of no use to a node that still holds some; and where a full bucket
// refuses, all that waits is to be told at once.
func (b *booker) wanted(st lineState) int64 {
	want := b.demand(st)
	switch {
	case b.refuses():
		return min(want, maxPour)
	case !b.kind.Ahead && st.held > 0:
		return 0
	}
	return min(want, b.most, b.blockSize())
}

// demand is how many slots are lacking. What is held while somebody asks again
// are refusals, which are none for him.
func (b *booker) demand(st lineState) int64 {
	return int64(st.again + max(0, st.waiting+b.opts.Waiting()-st.held))
}

// bookingDue is when the next booking is worth a call.
func (b *booker) bookingDue(st lineState, want int64) time.Time {
	if b.refuses() {
		return b.bookedAt.Add(minGap)
	}
	due := b.refusedUntil
	if st.held > 0 {
		due = later(due, st.last.Add(-b.atLeast(prefetch)))
	}
	if want < b.blockSize() {
		due = later(due, b.bookedAt.Add(minGap))
	}
	if b.less && b.kind.Ahead { // what becomes free meanwhile lies a horizon away, and is not lost
		due = later(due, b.bookedAt.Add(min(block, cmp.Or(b.reach(), b.known.Horizon)/4)))
	}
	return due
}

// lookInterval is shorter where nothing tells the node of changes.
func (b *booker) lookInterval() time.Duration {
	if b.heard.Load() {
		return idleEvery
	}
	return lookEvery
}

// refuses reports whether a full bucket turns callers away, under the algorithm in
// force.
func (b *booker) refuses() bool { return b.kind.Name == leakyBucket().Name && b.opts.Bucket.refuses() }

// reach is how far ahead this node's slots may lie; 0: the horizon alone says.
func (b *booker) reach() time.Duration {
	if b.kind.Name != leakyBucket().Name {
		return 0
	}
	return b.opts.Bucket.reach(b.known.Contract)
}

// blockSize is how many slots lie in one block, at least 1.
func (b *booker) blockSize() int64 {
	c := b.known.Contract
	return int64(math.Ceil(b.kind.Share(c)*float64(c.Cap)*b.atLeast(block).Seconds()/c.Window.Seconds() - 1e-9))
}

// atLeast is how far ahead a node works: a time that saves calls, or more where
// Redis is far. A node that is stopped loses the slots that it holds; where the
// fleet chose a longer lateness, because its hosts stop, nodes hold as few as
// the way to Redis allows.
func (b *booker) atLeast(usual time.Duration) time.Duration {
	if b.known.Auto && b.known.Lateness > latenessClasses[0] {
		usual = 0
	}
	return max(usual, b.rtt+spare)
}

// tooWide reports whether the mapping leaves a slot too little time to be used:
// the margin before the write, and the timer that wakes its caller.
func (b *booker) tooWide(now time.Time) bool {
	const timer = 300 * time.Microsecond
	return b.clock.width(now)+margin+timer >= b.known.Lateness
}

// question is what the next call asks.
func (b *booker) question(want int64, now time.Time) ask {
	place := b.place
	place.due = !now.Before(b.refusedUntil)
	return ask{
		want: want, seq: b.seq, retry: b.lost, epoch: b.clock.epoch, stepped: b.stepped, since: b.clock.since, read: b.clock.trusted,
		identity: b.opts.Identity, lead: lead, reach: b.reach(), leaves: b.refuses(), place: place,
		report:  now.Sub(b.saidAt) >= reportMost,
		hello:   b.listens.Load() && !b.heard.Load() && now.Sub(b.helloAt) >= lookMost,
		learned: b.learned, known: b.known,
	}
}

// call runs the script once and takes in what it says.
func (b *booker) call(ctx context.Context, want int64) {
	cctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	asked := time.Now()
	b.slept = b.host.suspended()
	a := b.question(want, asked)
	reply, err := b.book(cctx, a)
	answered := time.Now()
	b.calledAt = answered
	b.tell = false
	if err != nil {
		b.lost = b.lost || want > 0
		b.failed(ctx, err, answered)
		return
	}
	b.failures, b.retryAt, b.refusing = 0, time.Time{}, false
	b.unlend()
	b.noteTrip(answered.Sub(asked))
	b.noteSaid(a, asked)
	b.metrics.called(want, reply, answered.Sub(asked))
	if b.clock.epoch == 0 {
		b.settledAt = answered.Add(reply.settings.LookEvery())
	}
	if b.stepped = b.clock.observe(reading{asked: asked, answered: answered, now: reply.now, epoch: reply.epoch}); b.stepped {
		b.log.Warn("redis's clock or this host's has stepped; slots that are held are dropped")
		b.noteLate(b.line.drop()) // it may be this node's clock that stood still
	}
	isNew := !b.learned && reply.fence == fenceSettingsLost
	b.take(reply)
	if want > 0 {
		b.receive(want, reply, answered)
		b.turnAway(want-reply.schedule.given, reply, answered)
		b.lost = false
	}
	b.report(reply, answered, isNew)
}

// noteSaid notes what an answered call has told Redis and asked of it.
func (b *booker) noteSaid(a ask, now time.Time) {
	b.pollAt = time.Time{}
	if a.want == 0 {
		b.place = place{} // a poll gives it up
	}
	if a.want == 0 || a.report {
		b.saidAt = now
	}
	if a.hello {
		b.helloAt = now
	}
}

// leave takes the node off the list of those that are there, at a graceful end. At
// any other end Redis takes it for gone after some seconds.
func (b *booker) leave(ctx context.Context) {
	if b.clock.epoch == 0 || b.failures > 0 {
		return
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	a := b.question(0, time.Now())
	a.end = true
	if _, err := b.book(cctx, a); err != nil {
		b.log.Info("the node could not sign off at redis; it is taken for gone after some seconds", "error", err)
	}
}

// noteTrip follows the shortest of late: one slow reply does not make Redis far.
func (b *booker) noteTrip(took time.Duration) {
	if b.rtt == 0 || took < b.rtt {
		b.rtt = took
		return
	}
	b.rtt += (took - b.rtt) / 16
}

// take learns the settings in force; new ones may end a refusal, and are told
// back at once, for those who wait to see them in force. What was booked before
// a cut is given up: that only lowers the rate.
func (b *booker) take(reply booking) {
	if b.learned && (reply.settings == b.known || b.known.newer(reply.settings)) {
		return
	}
	if b.learned && reply.settings.stricter(b.known) {
		b.noteLate(b.line.drop())
	}
	b.learn(reply.settings, !b.learned)
	b.learned, b.known, b.refusedUntil, b.place = true, reply.settings, time.Time{}, place{}
	b.kind, _ = AlgorithmNamed(reply.settings.Algorithm) // the script that answered is one of these
	b.tell = true
}

// noteLate counts slots that nobody could use in time.
func (b *booker) noteLate(n int64) {
	b.late += n
	b.metrics.late.Add(float64(n))
}

// adapt lets a node that can't use its slots in time, being short of CPU, ask
// for fewer of them, so that the rest of the fleet has them; and for more again
// when it can.
func (b *booker) adapt(given int64) {
	if 4*b.late > b.given {
		b.most = max(1, b.most*3/4)
	} else {
		b.most = min(b.most+1+b.most/8, b.blockSize())
	}
	b.given, b.late = given, 0
}

// receive maps booked slots to this node's clock and puts them into the line.
// After a step of Redis's clock they mean nothing, and are dropped. A refusal
// says when it is this node's turn.
func (b *booker) receive(want int64, reply booking, now time.Time) {
	b.seq++
	b.bookedAt = now
	given := reply.schedule.given
	b.less = given < want
	b.adapt(given)
	b.place = reply.place
	if given == 0 {
		b.refusedUntil = now.Add(reply.wait)
		return
	}
	if b.stepped {
		b.noteLate(given)
		return
	}
	slots := make([]Slot, 0, given)
	for j := range given {
		s := b.clock.slot(reply.schedule.at(j), reply.settings.Lateness, now)
		s.host, s.slept = b.host, b.slept
		slots = append(slots, s)
	}
	b.line.add(slots, now)
}

// turnAway tells those for whom a full bucket had no room. A limit that gives
// nothing for another reason lets them wait.
func (b *booker) turnAway(count int64, reply booking, now time.Time) {
	gives := !b.stepped && !b.lost && !reply.settings.Paused && reply.quiet <= reply.now && reply.fence == fenceNone
	if !b.refuses() || !gives {
		return
	}
	b.metrics.turnedAway.Add(float64(b.line.refuse(count, now)))
}

// report moves the limiter into the phase that the reply tells of. isNew: Redis did
// not know the limit, and this node knows it from its file alone.
func (b *booker) report(reply booking, now time.Time, isNew bool) {
	width := b.clock.width(now)
	switch wait := duration(reply.quiet - reply.now).Round(time.Millisecond); {
	case isNew:
		b.log.Info("the limit is new in redis and was seeded from the file", "sending_starts_in", wait)
	case reply.fence != fenceNone:
		b.log.Warn("cooldown began: nothing is sent until all slots that may be out are over", "reason", reply.fence, "wait", wait)
	}
	if reply.poll > 0 {
		b.pollAt = now.Add(reply.poll)
	}
	if b.tooWide(now) {
		// The first reading may hold a dial, and another one is soon made.
		b.retryAt = now.Add(min(retryMost, retryFirst<<min(b.wide, 4)))
		b.wide++
	} else {
		b.wide = 0
	}
	switch {
	case reply.settings.Paused:
		b.enter(PhasePaused, time.Time{}, nil, width)
	case b.wide > 3:
		b.enter(PhaseTooSlow, time.Time{}, nil, width)
	case reply.quiet > reply.now:
		b.enter(PhaseFenced, now.Add(duration(reply.quiet-reply.now)), nil, width)
	case b.wide == 0:
		b.enter(PhaseRunning, time.Time{}, nil, width)
	}
}

// failed keeps the number of the booking, so that the next call gets the slots
// of this one if Redis did book them.
func (b *booker) failed(ctx context.Context, err error, now time.Time) {
	if ctx.Err() != nil {
		return
	}
	b.failures++
	b.metrics.errors.Inc()
	wait := min(retryMost, retryFirst<<min(b.failures-1, 4))
	b.retryAt = now.Add(wait/2 + rand.N(wait/2+1))
	phase, until := PhaseAway, time.Time{}
	b.refusing = refusal(err)
	switch {
	case b.refusing:
		phase = PhaseRefused
	case b.lending(now):
		phase, until = PhaseReserve, b.mine.until
	}
	b.enter(phase, until, err, b.clock.width(now))
}

// refusal tells an answer that stays the same however often one asks from a
// Redis that is away, loading or being replaced.
func refusal(err error) bool {
	for _, words := range []string{
		"IDENTITY", "NOPERM", "NOAUTH", "WRONGPASS", "ERR unknown command", "OOM", "MISCONF", "WRONGTYPE", "MODULE", "VERSION",
		"ERR The user executing the script", // NOPERM, as 7.0 says it of a command inside
		"ERR ACL failure in script",         // the same, as later ones and Valkey say it
	} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return errors.Is(err, errReply)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
