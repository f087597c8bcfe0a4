package schedule

import (
	"time"

	"dispatcher/consumer/internal/diversion"
	"dispatcher/consumer/internal/states"
)

// The diverted jobs: those that no worker gets, and those that one had for too long. Package
// diversion says which they are, and where they go.

// DiversionOf is that of a job that [Assignment.Diverted] gave.
func DiversionOf(d *Delivery) *diversion.Diversion { return d.diversion }

// Diverted takes the jobs that were diverted since it was last called; its caller writes
// them. When the assignment ends the drain drops the others.
func (a *Assignment) Diverted() []*Delivery {
	a.sched.mu.Lock()
	defer a.sched.unlock()
	if a.Context().Err() != nil {
		return nil
	}
	some := a.diverted
	a.diverted = nil
	return some
}

// HasDiverted gets a notice when [Assignment.Diverted] may have some.
func (a *Assignment) HasDiverted() <-chan struct{} { return a.hasDiverted }

// divert gives a job to the caller of [Assignment.Diverted]. No worker has it; the
// assignment awaits it all the same.
func (p *Partition) divert(d *Delivery, to *diversion.Diversion) {
	d.on(states.Divert)
	d.endWait()
	p.queueDiverted(d, to)
}

func (p *Partition) queueDiverted(d *Delivery, to *diversion.Diversion) {
	d.diversion = to
	p.diverted.Plus(d.bytes())
	p.asg.awaited++
	p.asg.diverted = append(p.asg.diverted, d)
	notify(p.asg.hasDiverted)
}

// SleepInstead keeps a diverted job in memory until it is due: its retry topic does not take
// it.
func SleepInstead(d *Delivery) {
	p := d.part
	p.sched.mu.Lock()
	defer p.sched.unlock()
	p.asg.leaves()
	p.diverted.Minus(d.bytes())
	if p.asg.phase != working {
		return
	}
	d.diversion = nil
	p.sleepUntilDue(d)
	p.wakeFetcher() // what sleeps takes no room
}

// divertExpired is for a job whose not-after has passed.
func (p *Partition) divertExpired(d *Delivery) { p.divert(d, diversion.Expired(d.attempts)) }

// delay has a job wait that is not due: in a retry topic or in memory. A job that can wait
// in neither goes to the dead letters.
func (p *Partition) delay(d *Delivery, wait time.Duration) {
	if to := diversion.NotDue(p.sched.opts.RetryTopics, wait, d.wait.due, d.attempts); to != nil {
		p.divert(d, to)
		return
	}
	p.sleepUntilDue(d)
}

// timeOutLate times out the jobs that were taken too long ago: such a job holds the
// committed offset of its partition, and its key. It returns how soon to check again. The
// lock is held.
func (s *Scheduler) timeOutLate(now time.Time) time.Duration {
	if s.opts.JobTimeout == 0 {
		return time.Hour
	}
	for d, since := range s.taken {
		if now.Sub(since) >= s.opts.JobTimeout && d.part.asg.phase == working {
			s.timeOut(d, now)
		}
	}
	return max(s.opts.JobTimeout/16, 10*time.Millisecond)
}

func (s *Scheduler) timeOut(d *Delivery, now time.Time) {
	delete(s.taken, d)
	if _, ok := d.on(states.TimeOut); !ok {
		return
	}
	d.part.queueDiverted(d, diversion.TimedOut(s.opts.RetryTopics, s.opts.JobTimeout, d.attempts, now))
}
