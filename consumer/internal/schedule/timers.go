package schedule

import (
	"time"

	"dispatcher/consumer/internal/states"
)

// timer is what waits for a time of the wall clock: a job that is asleep or, without a job, a
// partition of a retry topic whose first record is not due.
type timer struct {
	part *Partition
	d    *Delivery

	holdsKey bool // the job was called before, or waits for a limit; it holds its key, and stays among the open jobs, so that its age counts
	early    bool // [Scheduler.Wake] ends it
}

// Placed notes with the job where its timer is.
func (t timer) Placed(at int) {
	if t.d != nil {
		t.d.waits().timer = at
	}
}

// setTimer has KeepTime check again where the timer is the first. The lock is held.
func (s *Scheduler) setTimer(at time.Time, one timer) {
	if s.timers.Set(at, one) {
		notify(s.earlier)
	}
}

// KeepTime ends timers and times jobs out until done.
func (s *Scheduler) KeepTime(done <-chan struct{}) {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		t.Reset(s.endTimers())
		s.logSleepersFull()
		select {
		case <-t.C:
		case <-s.earlier:
		case <-done:
			return
		}
	}
}

// endTimers wakes what is due and times out what is late. It returns how long there is
// nothing else to do.
func (s *Scheduler) endTimers() time.Duration {
	s.mu.Lock()
	defer s.unlock()
	now := time.Now()
	for one, ok := s.timers.Due(now); ok; one, ok = s.timers.Due(now) {
		s.endTimer(one)
	}
	return min(s.timers.Wait(now), s.timeOutLate(now))
}

// endTimer wakes what a timer was for, and fills all lanes: a job that wakes may make room
// among the sleepers for each of them. The lock is held.
func (s *Scheduler) endTimer(one timer) {
	one.part.wake(one)
	one.part.src.Lane.enlist(one.part)
	s.fillAll()
}

// waitForHead sets a timer for the partition's first record.
func (p *Partition) waitForHead(until time.Time) {
	p.headWaits = true
	p.sched.setTimer(until, timer{part: p})
}

// wake ends a job's sleep or, without a job, the wait for the partition's first record.
func (p *Partition) wake(one timer) {
	d := one.d
	if d == nil {
		p.headWaits = false
		return
	}
	d.on(states.Wake)
	p.asleep.Minus(d.bytes())
	if one.holdsKey {
		p.returning.Push(d)
	} else {
		p.open.Add(d)
		p.woken.Push(d)
	}
	p.sched.wokeUp(d)
}
