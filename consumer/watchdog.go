package consumer

import (
	"fmt"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer/internal/offsets"
)

// A job that is in hand longer than JobTimeout holds the commit point of its
// partition, and its key. So it is expelled: it goes to a tier or to the dead
// letters, and what its worker says of it later only gives the hand back.

// expelLate expels what has been in hand for too long. It returns how soon to look
// again. The hub's lock is held.
func (h *hub) expelLate(now time.Time) time.Duration {
	if h.jobTimeout == 0 {
		return time.Hour
	}
	for d, since := range h.since {
		if now.Sub(since) >= h.jobTimeout && !d.part.asg.draining {
			h.expel(d, now)
		}
	}
	return max(h.jobTimeout/16, 10*time.Millisecond)
}

func (h *hub) expel(d *Delivery, now time.Time) {
	delete(h.since, d)
	d.timedOut = true
	l := &letter{d: d, f: deadletter.Failure{
		Class: deadletter.ClassJobTimeout, Message: fmt.Sprintf("in hand for %v and not settled", h.jobTimeout),
		Attempt: d.attempts.Calls, Failures: d.attempts.Failures,
	}}
	if len(h.tiers) > 0 {
		l.tier = max(tierFor(h.tiers, h.jobTimeout), h.tiers[0])
		l.at = now.Add(l.tier)
	}
	d.part.condemn(d, l)
}

// heard takes in that a worker has made up its mind about a job. It returns
// whether that comes too late: then only the hand is given back. The hub's lock
// is held.
func (h *hub) heard(d *Delivery) (late bool) {
	delete(h.since, d)
	if !d.timedOut || d.left {
		return d.timedOut
	}
	d.left = true
	h.leaveHand(d)
	h.pump(d.part.lane)
	return true
}

// leaveHand notes that no worker has the job any more.
func (h *hub) leaveHand(d *Delivery) {
	p, a := d.part, d.part.asg
	p.lane.inHand--
	p.taken--
	a.inHand--
	if a.draining && a.inHand == 0 {
		a.setIdle()
	}
}

// answer is a worker's Done or Return.
func (h *hub) answer(d *Delivery, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.heard(d) {
		h.settleLocked(d, done)
	}
}

// claim is a worker's word that has to be written before it settles the job;
// false: it comes too late. From then on the job is not stuck with its worker.
func (h *hub) claim(d *Delivery) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.heard(d)
}

// takeBack gives a job that was claimed to its worker again.
func (h *hub) takeBack(d *Delivery) {
	if h.jobTimeout == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since[d] = time.Now()
}

// SetAttempts takes in what the job has been through by now, for whoever gets it next: the
// next commit tells the partition's next owner.
func (d *Delivery) SetAttempts(p offsets.Attempts) {
	h := d.part.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	d.goneThrough(p)
}

// CountFailure counts one more failure of a call that was made before: the worker learned
// only now that the job was to blame. It may be called at any time.
func (d *Delivery) CountFailure() {
	h := d.part.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	d.goneThrough(offsets.Attempts{Calls: d.attempts.Calls, Failures: d.attempts.Failures + 1})
}

// goneThrough notes what the job has been through. The hub's lock is held. What
// comes after the end of the assignment is not committed any more.
func (d *Delivery) goneThrough(p offsets.Attempts) {
	p.Failures = max(p.Failures, d.attempts.Failures) // the worker may not know of a Blame yet
	d.attempts = p
	if !d.settled && !d.timedOut {
		d.part.tracker.SetAttempts(d.Job.Offset, p)
	}
}

// TimedOut tells whether the job has been in hand for too long and went elsewhere.
// Then it is not to be called any more, and to be returned.
func (d *Delivery) TimedOut() bool {
	h := d.part.hub
	if h.jobTimeout == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return d.timedOut
}
