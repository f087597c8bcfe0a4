package consumer

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"dispatcher/consumer/internal/offsets"
)

// This file is about jobs that wait in memory for their next try. Such a job is
// asleep: it has no worker and no place in flight. It holds its key, or in
// partition order its partition, so that none of its successors overtakes it.

// SleepOptions is how a job waits for its next try.
type SleepOptions struct {
	Until     time.Time // when it is handed out again
	WakeEarly bool      // [Consumer.Wake] ends the nap
	// Failed: the job was tried in vain, so that [Consumer.TakeSample] passes it over.
	Failed   bool
	Attempts offsets.Attempts // what [Delivery.Attempts] says from now on
	Memo     any              // what [Delivery.Memo] says from now on; the consumer does not look into it
}

// Sleep gives the job's place up, and has it handed out again later. It does not
// block. A job that sleeps is open: when its partition is taken away, or the
// consumer stops, the job is released at once, as by [Delivery.Release].
func (d *Delivery) Sleep(n SleepOptions) {
	d.Step("waits for its next call", slog.Time("until", n.Until), slog.Int("calls", n.Attempts.Calls), slog.Int("failures", n.Attempts.Failures))
	h := d.part.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.heard(d) || d.settled:
	case d.part.asg.draining:
		h.settleLocked(d, false)
	default:
		d.goneThrough(n.Attempts)
		d.memo, d.failed = n.Memo, n.Failed
		h.leaveHand(d)
		d.part.doze(alarm{at: n.Until, part: d.part, d: d, retry: true, early: n.WakeEarly})
		h.pump(d.part.lane)
	}
}

// Requeue makes the job ready again, ahead of those that were fetched after it: its
// worker could not call it. It does not block.
func (d *Delivery) Requeue() {
	d.Step("put back, waits for the provider")
	h, p := d.part.hub, d.part
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.heard(d) || d.settled:
	case p.asg.draining:
		h.settleLocked(d, false)
	default:
		h.leaveHand(d)
		p.parked += d.size
		d.next = p.freed.head
		if p.freed.head = d; p.freed.tail == nil {
			p.freed.tail = d
		}
		p.lane.enlist(p)
		h.pump(p.lane)
	}
}

// Memo is what the last [Delivery.Sleep] left; nil: the job has not slept.
func (d *Delivery) Memo() any { return d.memo }

// SleepersFull tells whether as many jobs sleep on this node as may: then no new job
// is fetched. One that fails sleeps all the same, or goes to a retry tier.
func (c *Consumer) SleepersFull() bool {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	return c.hub.crowded()
}

// Wake hands out again, in turn, the jobs whose nap may end early.
func (c *Consumer) Wake() { c.hub.wakeEarly() }

// TakeSample hands out a job that has not failed yet, from anywhere in what was
// fetched: it shows more of the provider than the next one in turn would. Where
// there is none, it is [Consumer.Take].
func (c *Consumer) TakeSample() *Delivery { return c.hub.takeSample() }

// doze keeps a job in memory until its alarm. The job is open in the ledger.
func (p *partition) doze(a alarm) {
	p.parked += a.d.size
	p.asleep++
	p.hub.asleep++
	p.hub.asleepBytes += a.d.size
	if late := a.d.Job.NotAfter; !late.IsZero() && late.Before(a.at) {
		a.at = late.Add(time.Millisecond) // it expires meanwhile
	}
	p.hub.alarms.set(a)
}

// crowded tells whether as many jobs sleep as may.
func (h *hub) crowded() bool { return h.asleep >= h.maxAsleep || h.asleepBytes >= h.maxAsleepBytes }

// tellCrowded logs when the bound is reached, and when it is left.
func (h *hub) tellCrowded() {
	h.mu.Lock()
	now, asleep, bytes := h.crowded(), h.asleep, h.asleepBytes
	changed := now != h.toldCrowded
	h.toldCrowded = now
	h.mu.Unlock()
	switch {
	case changed && now:
		h.log.Warn("as many jobs wait in memory as may, nothing new is fetched", "jobs", asleep, "bytes", bytes, "max_asleep", h.maxAsleep, "max_asleep_bytes", h.maxAsleepBytes)
	case changed:
		h.log.Info("fewer jobs wait in memory than may, fetching goes on", "jobs", asleep)
	}
}

// rise notes that a job is not asleep any more. If that makes room for others,
// all partitions go on.
func (h *hub) rise(d *Delivery) {
	before := h.crowded()
	h.asleep--
	h.asleepBytes -= d.size
	if !before || h.crowded() {
		return
	}
	h.alarms.poke() // so that the log hears of it
	for a := range h.live {
		for _, p := range a.parts {
			p.lane.enlist(p)
			p.wakeFetcher()
		}
	}
}

func (h *hub) wakeEarly() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.alarms.remove(func(a alarm) bool { return a.early }) {
		one.part.awaken(one)
		one.part.lane.enlist(one.part)
	}
	for _, l := range h.lanes {
		h.pump(l)
	}
}

// takeSample looks in one partition of the job topics, at random, then among the
// jobs that are ready.
func (h *hub) takeSample() *Delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	var parts []*partition
	for a := range h.live {
		for _, p := range a.parts {
			if p.tier == 0 && !a.draining && (p.freed.head != nil || p.buffer.head != nil) {
				parts = append(parts, p)
			}
		}
	}
	if len(parts) > 0 {
		p := parts[rand.IntN(len(parts))]
		d := p.sample()
		p.lane.enlist(p)
		p.wakeFetcher()
		if d != nil && !d.expired() {
			return h.handOut(d)
		}
		if d != nil {
			p.condemn(d, expiry(d))
		}
	}
	for _, l := range h.lanes {
		if d := l.popFresh(); d != nil {
			return h.handOut(d)
		}
	}
	return h.takeBest()
}

// sample takes a job out of what was fetched, each with the same chance. The jobs
// before it keep their order, and their keys.
func (p *partition) sample() *Delivery {
	freed := p.freed.len()
	n := rand.IntN(freed + p.count)
	for at := freed; at <= n && p.buffer.head != nil; at++ {
		d, ok := p.admitNext()
		if !ok {
			break
		}
		if d != nil {
			p.parked += d.size
			p.freed.push(d)
		}
	}
	d := p.freed.remove(min(n, p.freed.len()-1))
	if d != nil {
		p.parked -= d.size
	}
	return d
}

// failedBefore tells whether the job was tried in vain, here or before.
func (d *Delivery) failedBefore() bool { return d.failed || d.attempts != offsets.Attempts{} }

// popFresh takes the first job that has not failed yet out of those that are
// ready; nil: there is none.
func (l *lane) popFresh() *Delivery {
	n := 0
	for d := l.ready.head; d != nil; d = d.next {
		if !d.failedBefore() && !d.expired() {
			l.count--
			return l.ready.remove(n)
		}
		n++
	}
	return nil
}

func (l *list) len() (n int) {
	for d := l.head; d != nil; d = d.next {
		n++
	}
	return n
}

// remove takes out the job at a place, from 0; nil: there is none.
func (l *list) remove(at int) *Delivery {
	if at <= 0 {
		if at < 0 || l.head == nil {
			return nil
		}
		return l.pop()
	}
	before := l.head
	for ; at > 1 && before != nil; at-- {
		before = before.next
	}
	if before == nil || before.next == nil {
		return nil
	}
	d := before.next
	if before.next = d.next; before.next == nil {
		l.tail = before
	}
	d.next = nil
	return d
}
