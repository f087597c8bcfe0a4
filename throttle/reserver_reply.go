package throttle

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"
)

// take learns the settings in force. New ones may end a refusal, and are reported
// back at once, for those who wait to see them in force. Slots that were reserved
// before a cut are given up: that only lowers the rate.
func (r *reserver) take(reply reservation) {
	if r.learned && (reply.settings == r.known || r.known.Newer(reply.settings)) {
		return
	}
	if r.learned && reply.settings.Stricter(r.known) {
		r.noteLate(r.queue.drop())
	}
	r.learn(reply.settings, !r.learned)
	r.learned, r.known, r.refusedUntil, r.place = true, reply.settings, time.Time{}, place{}
	r.kind, _ = AlgorithmNamed(reply.settings.Algorithm) // the script that answered is one of these
	r.pollNow = true
}

// noteLate counts slots that nobody could use in time.
func (r *reserver) noteLate(n int64) {
	r.late += n
	r.metrics.late.Add(float64(n))
}

// adapt lets a node that can't use its slots in time, being short of CPU, ask
// for fewer of them, so that the rest of the fleet has them; and for more again
// when it can.
func (r *reserver) adapt(given int64) {
	if 4*r.late > r.given {
		r.most = max(1, r.most*3/4)
	} else {
		r.most = min(r.most+1+r.most/8, r.blockSize())
	}
	r.given, r.late = given, 0
}

// receive maps reserved slots to this node's clock and puts them into the wait queue.
// After a step of Redis's clock they mean nothing, and are dropped. A refusal
// says when this node is to ask again.
func (r *reserver) receive(want int64, reply reservation, now time.Time) {
	r.seq++
	r.reservedAt = now
	given := reply.schedule.given
	r.less = given < want
	r.adapt(given)
	r.place = reply.place
	if given == 0 {
		r.refusedUntil = now.Add(reply.wait)
		return
	}
	if r.stepped {
		r.noteLate(given)
		return
	}
	lateness := reply.settings.Lateness
	slots := make([]Slot, 0, given)
	for j := range given {
		notBefore, notAfter := r.clock.slot(reply.schedule.at(j), lateness, now)
		slots = append(slots, Slot{NotBefore: notBefore, NotAfter: notAfter, lateness: lateness, host: r.host, slept: r.slept})
	}
	r.queue.add(slots, now)
}

// turnAway refuses the callers for whom a full bucket had no room. A limit that gives
// nothing for another reason lets them wait.
func (r *reserver) turnAway(count int64, reply reservation, now time.Time) {
	gives := !r.stepped && !r.lost && !reply.settings.Paused && reply.notBefore <= reply.now && reply.cooldown == cooldownNone
	if !r.refuses() || !gives {
		return
	}
	r.metrics.turnedAway.Add(float64(r.queue.refuse(count, now)))
}

// report moves the limiter into the phase that follows from the reply. isNew: Redis did
// not know the limit, and this node knows it from its file alone.
func (r *reserver) report(reply reservation, now time.Time, isNew bool) {
	width := r.clock.width(now)
	switch wait := duration(reply.notBefore - reply.now).Round(time.Millisecond); {
	case isNew:
		r.log.Info("limit is new in redis and was seeded from the file", "sending_starts_in", wait)
	case reply.cooldown != cooldownNone:
		r.log.Warn("cooldown began: nothing is sent until all slots that may be out are over", "reason", reply.cooldown, "wait", wait)
	}
	if reply.poll > 0 {
		r.pollAt = now.Add(reply.poll)
	}
	if r.tooWide(now) {
		// The first reading may hold a dial, and another one is soon made.
		r.retryAt = now.Add(min(retryMost, retryFirst<<min(r.wide, 4)))
		r.wide++
	} else {
		r.wide = 0
	}
	switch {
	case reply.settings.Paused:
		r.enter(PhasePaused, time.Time{}, nil, width)
	case r.wide > 3:
		r.enter(PhaseTooSlow, time.Time{}, nil, width)
	case reply.notBefore > reply.now:
		r.enter(PhaseCooldown, now.Add(duration(reply.notBefore-reply.now)), nil, width)
	case r.wide == 0:
		r.enter(PhaseRunning, time.Time{}, nil, width)
	}
}

// failed keeps the number of the reservation, so that the next call gets the slots
// of this one if Redis did reserve them.
func (r *reserver) failed(ctx context.Context, err error, now time.Time) {
	if ctx.Err() != nil {
		return
	}
	r.failures++
	r.metrics.errors.Inc()
	wait := min(retryMost, retryFirst<<min(r.failures-1, 4))
	r.retryAt = now.Add(wait/2 + rand.N(wait/2+1))
	phase, until := PhaseAway, time.Time{}
	r.refusing = refusal(err)
	switch {
	case r.refusing:
		phase = PhaseRefused
	case r.onLease(now):
		phase, until = PhaseReserve, r.lease.until
	}
	r.enter(phase, until, err, r.clock.width(now))
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
	return errors.Is(err, ErrReply)
}
