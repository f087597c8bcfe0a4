package schedule

import (
	"log/slog"
	"time"

	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/states"
)

// A job that sleeps after a call, or until a limit lets it pass, has no worker and no place in
// flight. It holds its key, or in partition order its partition, so that no job behind it
// overtakes it. A job that sleeps until its not-before holds neither.

// SleepOptions says how a job waits for its next try.
type SleepOptions struct {
	Until     time.Time // when it may be taken again
	WakeEarly bool      // [Scheduler.Wake] ends the sleep
	// Failed: the job's call failed, so that [Scheduler.TakeSample] passes it over.
	Failed   bool
	Attempts offsets.Attempts // what [Delivery.Attempts] returns from now on
	Memo     any              // what [Delivery.Memo] returns from now on; the consumer does not read it
}

// Sleep frees the job's in-flight place; the job may be taken again later. It does not
// block. A job that sleeps is open: when its partition is taken away, or the consumer stops,
// the job is released at once, as by [Delivery.Release].
func (d *Delivery) Sleep(o SleepOptions) {
	d.Step("waits for its next call", slog.Time("until", o.Until), slog.Int("calls", o.Attempts.Calls), slog.Int("failures", o.Attempts.Failures))
	s := d.part.sched
	s.mu.Lock()
	defer s.unlock()
	s.handBack(d, func(p *Partition) {
		d.setAttempts(o.Attempts)
		d.waits().memo, d.failed = o.Memo, o.Failed
		p.sleepUntil(o.Until, timer{part: p, d: d, holdsKey: true, early: o.WakeEarly})
	})
}

// DeferOptions says for which limit a job waits, or which rule holds it.
type DeferOptions struct {
	Until  time.Time // when it may be taken again
	Passes time.Time // when its wait will be over, as far as is known: that may be later than Until; zero: then
	Limit  string    // its name
	Held   bool      // Limit names a rule of the operators, and no limit
}

// Defer takes a hand-out back, as [Scheduler.PutBack] does. The job may be taken again at a
// time: a limit does not let it pass until then. It holds its key meanwhile, or in
// partition order its partition.
func (s *Scheduler) Defer(d *Delivery, o DeferOptions) {
	step, name := "waits for a limit", "limit"
	if o.Held {
		step, name = "is held by a rule", "rule"
	}
	d.Step(step, slog.String(name, o.Limit), slog.Time("until", o.Until), slog.Time("passes", o.Passes))
	s.mu.Lock()
	defer s.unlock()
	s.handBack(d, func(p *Partition) {
		p.src.Lane.ready.Refund(d.tenant, d.turns())
		w := d.waits()
		w.limit, w.held, w.passes = o.Limit, o.Held, o.Passes
		p.deferred[o.Limit]++
		p.sleepUntil(o.Until, timer{part: p, d: d, holdsKey: true})
	})
}

// Resume ends the sleep of jobs that wait for a limit. They may be taken again, in turn. Those that do not wait any more
// are passed over, and those whose assignment drains: they have no timer.
func (s *Scheduler) Resume(jobs []*Delivery) {
	s.mu.Lock()
	defer s.unlock()
	for _, d := range jobs {
		if d.state != states.Asleep || d.wait.limit == "" || d.part.asg.phase != working {
			continue
		}
		s.endTimer(s.timers.End(d.wait.timer))
	}
}

// endWait notes that a job does not wait for a limit any more: it is handed out, or diverted.
// The lock is held.
func (d *Delivery) endWait() {
	if limit := d.limit(); limit != "" {
		if d.part.deferred[limit]--; d.part.deferred[limit] == 0 {
			delete(d.part.deferred, limit) // it may be a rule, which no later one is named after
		}
		d.wait.limit = ""
		d.part.src.Lane.enlist(d.part) // it may have room for a new job
		d.part.wakeFetcher()
	}
}

// Deferred is how many jobs wait for each limit, by its name: from [Scheduler.Defer] until they
// are handed out again, diverted or dropped.
func (s *Scheduler) Deferred() map[string]int {
	s.mu.Lock()
	defer s.unlock()
	all := make(map[string]int)
	for a := range s.live {
		for _, p := range a.parts {
			for name, jobs := range p.deferred {
				all[name] += jobs
			}
		}
	}
	return all
}

// Requeue queues the job again, ahead of the jobs of its partition that are not ready yet: its
// worker could not call it. It does not block.
func (d *Delivery) Requeue() {
	d.Step("requeued, waits for the provider or for another slot")
	s := d.part.sched
	s.mu.Lock()
	defer s.unlock()
	s.handBack(d, func(p *Partition) {
		p.src.Lane.ready.Refund(d.tenant, d.turns())
		p.requeue(d)
	})
}

func (p *Partition) requeue(d *Delivery) {
	d.on(states.Requeue)
	p.freed.PushFront(d)
	p.src.Lane.enlist(p)
}

// handBack takes a job that is not settled from its worker; put queues it again. While the
// assignment drains, the job is released instead. The lock is held.
func (s *Scheduler) handBack(d *Delivery, put func(*Partition)) {
	if !d.state.Decidable() || d.part.asg.phase != working {
		s.letGo(d, false)
		return
	}
	s.workerLeaves(d)
	put(d.part)
	s.fill(d.part.src.Lane)
}

// sleepUntilDue has a job sleep until its not-before. Its offset is open. It holds
// neither its key nor its partition: it joins its key queue when it is due.
func (p *Partition) sleepUntilDue(d *Delivery) {
	p.open.Remove(d)
	p.sleepUntil(d.wait.due, timer{part: p, d: d})
}

// sleepUntil keeps a job in memory until its timer ends. Its offset is open.
func (p *Partition) sleepUntil(at time.Time, t timer) {
	s, d := p.sched, t.d
	d.on(states.Sleep)
	p.asleep.Plus(d.bytes())
	if d.countsAsleep() {
		s.sleepers.Add(d.bytes())
	}
	if late := d.Job.NotAfter; !late.IsZero() && late.Before(at) {
		at = late.Add(time.Millisecond) // it expires meanwhile
	}
	s.setTimer(at, t)
}

// countsAsleep tells whether a job that sleeps is among those that the node bounds. In a fair lane thousands of jobs are
// taken that a limit refuses. They stop no other lane: what a partition may hold bounds them.
func (d *Delivery) countsAsleep() bool { return d.limit() == "" || !d.part.src.Lane.fair }

// SleepersFull tells whether as many jobs sleep on this node as may. Then no new job is made
// ready or fetched; a job that fails may sleep all the same.
func (s *Scheduler) SleepersFull() bool {
	s.mu.Lock()
	defer s.unlock()
	return s.sleepers.Full()
}

// sleepersFull tells whether the partition makes no new job ready since too many sleep.
func (p *Partition) sleepersFull() bool {
	s := p.sched
	switch {
	case s.sleepers.Full():
		return true
	case s.sleepers.BelowHalf():
		return false
	}
	deferred, parts := 0, 0
	for _, jobs := range p.deferred {
		deferred += jobs
	}
	for a := range s.live {
		parts += len(a.parts)
	}
	return s.sleepers.PartUsed(deferred, p.asleep.Bytes, parts)
}

// logSleepersFull logs when the bound is reached, and when it is left.
func (s *Scheduler) logSleepersFull() {
	s.mu.Lock()
	full, changed := s.sleepers.Changed()
	jobs, bytes := s.sleepers.Count()
	s.unlock()
	switch {
	case changed && full:
		s.log.Warn("as many jobs sleep in memory as may, fetching of new jobs paused", "jobs", jobs, "bytes", bytes, "max_asleep", s.opts.MaxAsleep, "max_asleep_bytes", s.opts.MaxAsleepBytes)
	case changed:
		s.log.Info("fewer jobs sleep in memory than may, fetching resumed", "jobs", jobs)
	}
}

// wokeUp notes that a job does not sleep any more. If that makes room for others, all
// partitions go on.
func (s *Scheduler) wokeUp(d *Delivery) {
	if !d.countsAsleep() || !s.sleepers.Remove(d.bytes()) {
		return
	}
	notify(s.earlier) // so that KeepTime logs it
	for a := range s.live {
		for _, p := range a.parts {
			p.src.Lane.enlist(p)
			p.wakeFetcher()
		}
	}
}

// Wake ends the sleep of the jobs with [SleepOptions.WakeEarly]. They may be taken again, in turn.
func (s *Scheduler) Wake() {
	s.mu.Lock()
	defer s.unlock()
	for _, one := range s.timers.Remove(func(t timer) bool { return t.early }) {
		one.part.wake(one)
		one.part.src.Lane.enlist(one.part)
	}
	s.fillAll()
}
