package consumer

import (
	"fmt"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer/internal/topicname"
)

// buryAll brings what an assignment has condemned to the dead letters and the
// tiers, until the assignment ends. It runs beside the fetchers, and one an
// assignment: a dead-letter topic that can't be written stops neither them nor
// the dead letters of other topics.
func (a *assignment) buryAll() {
	hub := a.g.c.hub
	for {
		select {
		case <-a.doom:
		case <-a.ctx.Done():
			return
		}
		for some := hub.doomed(a); len(some) > 0; some = hub.doomed(a) {
			a.buryThese(some)
		}
	}
}

// buryThese writes letters, those of jobs that have a result after it: what has
// none does not wait for others.
func (a *assignment) buryThese(some []*Delivery) {
	hub, results := a.g.c.hub, a.g.c.results
	var letters, after []letter
	for _, d := range some {
		if results.owes(d.doom) {
			after = append(after, *d.doom)
		} else {
			letters = append(letters, *d.doom)
		}
	}
	if len(letters) > 0 {
		a.buryUnfit(hub.dead.bury(a.ctx, letters))
	}
	if after = results.before(a.ctx, after); len(after) > 0 {
		hub.dead.bury(a.ctx, after)
	}
}

// buryUnfit sees to jobs that are too large for their retry topic. One that only
// waits for its time does so in memory, where that is not too long, as without
// retry topics. The others go to the dead letters.
func (a *assignment) buryUnfit(unfit []letter) {
	hub := a.g.c.hub
	var dead []*Delivery
	for i := range unfit {
		l := &unfit[i]
		hub.dead.tellUnfit(l.d, l.tier)
		if l.f.Class == "" && time.Until(l.at) <= restMost {
			hub.restInstead(l.d)
			continue
		}
		if l.f.Class == "" {
			l.f.Class = deadletter.ClassUnsupported
			l.f.Message = fmt.Sprintf("not-before: is more than %v ahead, and with its headers the job is larger than %s takes", restMost, l.topic())
		}
		l.tier = 0
		l.d.doom = l
		dead = append(dead, l.d)
	}
	if len(dead) > 0 {
		a.buryThese(dead)
	}
}

// restInstead keeps a job in memory until it is due that was to be written.
func (h *hub) restInstead(d *Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, a := d.part, d.part.asg
	if a.inHand--; a.draining {
		if a.inHand == 0 {
			a.setIdle()
		}
		return
	}
	p.parked -= d.size
	d.doom = nil
	p.rest(d)
}

// tellUnfit says that a job waits elsewhere than it should.
func (q *deadLetters) tellUnfit(d *Delivery, tier time.Duration) {
	j := &d.Job
	q.log.Warn("a job with its headers is larger than its retry topic takes and does not go there; raise the topic's max.message.bytes",
		"topic", topicname.Retry(d.part.of, tier), "from", j.Topic, "partition", j.Partition, "offset", j.Offset, "bytes", d.size)
}
