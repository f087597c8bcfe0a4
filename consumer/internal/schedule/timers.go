package schedule

import (
	"container/heap"
	"slices"
	"time"
)

// clockStep is how soon a step of the wall clock is noticed.
const clockStep = time.Second

// timer is something that waits for a time of the wall clock: a job that is asleep or,
// without a job, a partition of a retry topic whose first record is not due.
type timer struct {
	at   time.Time
	part *Partition
	d    *Delivery

	retry bool // the job was called before, or waits for a limit; it holds its key, and counts as waiting
	early bool // [Scheduler.Wake] ends it
}

// timers are in the order of their times. The scheduler's lock guards them.
type timers struct {
	all     []timer
	earlier chan struct{} // KeepTime has to check again; one slot
}

func newTimers() *timers { return &timers{earlier: make(chan struct{}, 1)} }

// Len implements [heap.Interface], as do Less, Swap, Push and Pop.
func (t *timers) Len() int           { return len(t.all) }
func (t *timers) Less(i, j int) bool { return t.all[i].at.Before(t.all[j].at) }
func (t *timers) Swap(i, j int) {
	t.all[i], t.all[j] = t.all[j], t.all[i]
	t.placed(i)
	t.placed(j)
}

// placed notes with its job where a timer is.
func (t *timers) placed(i int) {
	if d := t.all[i].d; d != nil {
		d.timer = i
	}
}

// Push implements [heap.Interface].
func (t *timers) Push(x any) {
	if one, ok := x.(timer); ok {
		t.all = append(t.all, one)
		t.placed(len(t.all) - 1)
	}
}

// Pop implements [heap.Interface].
func (t *timers) Pop() any {
	last := len(t.all) - 1
	one := t.all[last]
	t.all[last] = timer{}
	t.all = t.all[:last]
	return one
}

func (t *timers) set(one timer) {
	heap.Push(t, one)
	if t.all[0] == one {
		notify(t.earlier)
	}
}

// due takes out the first timer if its time has come.
func (t *timers) due(now time.Time) (timer, bool) {
	if len(t.all) == 0 || t.all[0].at.After(now) {
		return timer{}, false
	}
	one, ok := heap.Pop(t).(timer)
	return one, ok
}

// end takes out the timer of a job that is asleep.
func (t *timers) end(d *Delivery) (timer, bool) {
	one, ok := heap.Remove(t, d.timer).(timer)
	return one, ok
}

// wait is how long to wait for the first timer.
func (t *timers) wait(now time.Time) time.Duration {
	if len(t.all) == 0 {
		return time.Hour
	}
	return min(max(t.all[0].at.Sub(now), 0), clockStep)
}

// remove takes out some, and returns them in the order of their times.
func (t *timers) remove(which func(timer) bool) (removed []timer) {
	kept := t.all[:0]
	for _, one := range t.all {
		if which(one) {
			removed = append(removed, one)
		} else {
			kept = append(kept, one)
		}
	}
	clear(t.all[len(kept):])
	t.all = kept
	for i := range kept {
		t.placed(i)
	}
	heap.Init(t)
	slices.SortStableFunc(removed, func(x, y timer) int { return x.at.Compare(y.at) })
	return removed
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
		case <-s.timers.earlier:
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
	for one, ok := s.timers.due(now); ok; one, ok = s.timers.due(now) {
		s.endTimer(one)
	}
	return min(s.timers.wait(now), s.timeOutLate(now))
}

// endTimer wakes what a timer was for, and fills its lane. The lock is held.
func (s *Scheduler) endTimer(one timer) {
	one.part.wake(one)
	one.part.src.Lane.enlist(one.part)
	s.fill(one.part.src.Lane)
}

// waitForHead sets a timer for the partition's first record.
func (p *Partition) waitForHead(until time.Time) {
	p.headWaits = true
	p.sched.timers.set(timer{at: until, part: p})
}

// wake ends a job's sleep or, without a job, the wait for the partition's first record.
func (p *Partition) wake(one timer) {
	d := one.d
	if d == nil {
		p.headWaits = false
		return
	}
	d.on(wake)
	p.asleep.minus(d)
	if one.retry {
		p.retries.push(d)
	} else {
		p.open.add(d)
		p.woken.push(d)
	}
	p.sched.wokeUp(d)
}
