package throttle

import (
	"context"
	"math/rand/v2"
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/internal/slots"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/phase"
)

// take learns the settings in force. New ones may end a refusal, and are reported
// back at once, for those who wait to see them in force. Slots that were reserved
// before a cut are given up: that only lowers the rate.
func (r *reserver) take(reply script.Reservation) {
	if r.learned && (reply.Settings == r.known || r.known.Newer(reply.Settings)) {
		return
	}
	if r.learned && reply.Settings.Stricter(r.known) {
		r.giveUp()
	}
	r.learn(reply.Settings, !r.learned)
	r.learned, r.known = true, reply.Settings
	r.allLanes(func(l *lane) { l.refusedUntil, l.place = time.Time{}, script.Place{} })
	r.kind, _ = limit.AlgorithmNamed(reply.Settings.Algorithm) // the script that answered is one of these
	r.refunds.Store(r.kind.Refunds)
	r.pollNow = true
}

// giveUp ends all slots that are out.
func (r *reserver) giveUp() {
	r.slots.GiveUp()
	r.allLanes(func(l *lane) { l.last = time.Time{} })
}

// release lets those go that ask again: nothing is granted for long, and their jobs are not
// to keep workers.
func (r *reserver) release() {
	for _, w := range r.again {
		w.Answer(Slot{})
	}
	r.again = nil
}

// adapt lets a node that can't use its slots in time, being short of CPU, ask
// for fewer of them, so that the rest of the fleet has them; and for more again
// when it can.
func (r *reserver) adapt(given int64) {
	if 4*r.missed.Swap(0) > r.given {
		r.most = max(1, r.most*3/4)
	} else {
		r.most = min(r.most+1+r.most/8, r.blockSize())
	}
	r.given = given
}

// receive maps the slots that a call reserved to this node's clock, for those of the requests that got one. After a
// step of Redis's clock they mean nothing. A refusal says when this node is to ask again.
func (r *reserver) receive(number int, asked []request, a script.Ask, reply script.Reservation, now time.Time) {
	l := r.lane(number)
	r.seq++
	r.reservedAt, l.reservedAt, l.eager = now, now, false
	given, units := reply.Grants(a.Costs)
	r.refuse(asked, reply, now)
	l.less = units < a.Want
	if len(asked) == mostJobs { // more were ready
		l.less = l.less && 2*len(given) < len(asked)
	}
	l.sparse = len(given) > 0 && clock.Duration(given[len(given)-1].At-given[0].At) > r.atLeast(r.block())
	l.whole = unitsOf(asked) >= r.blockSize()
	r.adapt(int64(len(given)))
	l.place, r.cut = reply.Place, reply.Short == script.ShortOfCalls
	if reply.Schedule.Given == 0 {
		l.refusedUntil = now.Add(reply.Wait)
		return
	}
	r.pay(number, units)
	if r.stepped {
		r.noteMissed(int64(len(given)))
		for _, one := range given {
			r.giveBack(&slots.Charge{Job: asked[one.Job].Request, At: one.At, Epoch: r.clock.Epoch})
		}
		return
	}
	r.noteMissed(reply.Schedule.Given - units) // a reply that was lost comes again, to other requests
	lateness := reply.Settings.Lateness
	for _, one := range given {
		q := asked[one.Job]
		notBefore, notAfter := r.clock.Slot(one.At, lateness, now)
		q.answer.Slot = r.slots.Slot(notBefore, notAfter, lateness, r.slept, &slots.Charge{Job: q.Request, At: one.At, Epoch: r.clock.Epoch})
	}
}

// turnAway refuses the jobs for which a full bucket had no room. A limit that gives
// nothing for another reason lets them wait.
func (r *reserver) turnAway(asked []request, reply script.Reservation) {
	full := !r.stepped && reply.Short == script.ShortOfUnits
	if !r.refuses() || !full {
		return
	}
	for _, q := range asked {
		if !q.again && q.answer.Slot.IsZero() && q.answer.Until.IsZero() {
			q.answer.Err = ErrFull
			r.metrics.TurnedAway.Inc()
		}
	}
}

// usualStop is how long a change may stop the calls, beyond the slots that are out, before it has a phase of its own.
const usualStop = time.Second

// report moves the limiter into the phase that follows from the reply. isNew: Redis did
// not know the limit, and this node knows it from its file alone.
func (r *reserver) report(reply script.Reservation, now time.Time, isNew bool) {
	width := r.clock.Width(now)
	switch wait := clock.Duration(reply.NotBefore - reply.Now).Round(time.Millisecond); {
	case isNew:
		r.log.Info("limit is new in redis and was seeded from the file", "sending_starts_in", wait)
	case reply.Cooldown != script.CooldownNone:
		r.log.Warn("cooldown began: nothing is sent until all slots that may be out are over", "reason", reply.Cooldown, "wait", wait)
	}
	if reply.Poll > 0 {
		r.pollAt = now.Add(reply.Poll)
	}
	if set := reply.Settings; set.Paused && !set.RevertAt.IsZero() { // a call after that ends the pause
		ends := now.Add(clock.Duration(set.RevertAt.UnixMicro()-reply.Now) + time.Millisecond)
		if r.pollAt.IsZero() || ends.Before(r.pollAt) {
			r.pollAt = ends
		}
	}
	opens, begins := max(reply.NotBefore, reply.Slowdown.Until), limit.Micros(reply.Settings.Began)
	r.opensAt = now.Add(clock.Duration(opens - reply.Now))
	if reply.Settings.Paused || r.opensAt.After(now.Add(reply.Settings.Horizon)) {
		r.release()
	}
	if r.tooWide(now) {
		// The first reading may hold a dial, and another one is soon made.
		r.retryAt = now.Add(min(retryMost, retryFirst<<min(r.wide, 4)))
		r.wide++
	} else {
		r.wide = 0
	}
	switch {
	case reply.Settings.Paused:
		r.enter(phase.Paused, time.Time{}, nil, width)
	case r.wide > 3: // nothing is granted for long
		r.release()
		r.enter(phase.TooSlow, time.Time{}, nil, width)
	case reply.NotBefore > reply.Now:
		r.enter(phase.Cooldown, now.Add(clock.Duration(reply.NotBefore-reply.Now)), nil, width)
	case opens > reply.Now:
		r.enter(phase.Blocked, r.opensAt, nil, width)
	case begins > reply.Now+(reply.Settings.Horizon+reply.Settings.Lateness+usualStop).Microseconds():
		r.enter(phase.Changing, now.Add(clock.Duration(begins-reply.Now)), nil, width)
	case r.wide == 0:
		r.enter(phase.Running, time.Time{}, nil, width)
	}
}

// failed keeps the number of the reservation, so that the next call gets the slots
// of this one if Redis did reserve them.
func (r *reserver) failed(ctx context.Context, err error, now time.Time) {
	if ctx.Err() != nil {
		return
	}
	r.failures++
	r.metrics.Errors.Inc()
	wait := min(retryMost, retryFirst<<min(r.failures-1, 4))
	r.retryAt = now.Add(wait/2 + rand.N(wait/2+1))
	to, until := phase.Away, time.Time{}
	r.refusing = script.IsRefusal(err)
	switch {
	case r.refusing:
		to = phase.Refused
	case r.onLease(now):
		to, until = phase.Reserve, r.lease.Until
	}
	if to != phase.Reserve && r.failures >= awayAfter {
		r.release()
	}
	r.enter(to, until, err, r.clock.Width(now))
}
