package consumer

import (
	"container/heap"
	"slices"
	"time"
)

// clockStep is how soon a step of the wall clock is noticed.
const clockStep = time.Second

// alarm is something that waits for a time of the wall clock: a job that is asleep, or
// without one a partition of a tier whose first record is not due.
type alarm struct {
	at   time.Time
	part *partition
	d    *Delivery

	retry bool // the job was called before; it holds its key, and counts as waiting
	early bool // [Consumer.Wake] rings it
}

// alarms are in the order of their times. The hub's lock guards them.
type alarms struct {
	all     []alarm
	earlier chan struct{} // the clock is to look again; one slot
}

func newAlarms() *alarms { return &alarms{earlier: make(chan struct{}, 1)} }

// Len implements [heap.Interface], as do Less, Swap, Push and Pop.
func (a *alarms) Len() int           { return len(a.all) }
func (a *alarms) Less(i, j int) bool { return a.all[i].at.Before(a.all[j].at) }
func (a *alarms) Swap(i, j int)      { a.all[i], a.all[j] = a.all[j], a.all[i] }

// Push implements [heap.Interface].
func (a *alarms) Push(x any) {
	if one, ok := x.(alarm); ok {
		a.all = append(a.all, one)
	}
}

// Pop implements [heap.Interface].
func (a *alarms) Pop() any {
	last := len(a.all) - 1
	one := a.all[last]
	a.all[last] = alarm{}
	a.all = a.all[:last]
	return one
}

func (a *alarms) set(one alarm) {
	heap.Push(a, one)
	if a.all[0] == one {
		a.poke()
	}
}

// poke has the clock look again.
func (a *alarms) poke() {
	select {
	case a.earlier <- struct{}{}:
	default:
	}
}

// due takes out the first alarm if its time has come.
func (a *alarms) due(now time.Time) (alarm, bool) {
	if len(a.all) == 0 || a.all[0].at.After(now) {
		return alarm{}, false
	}
	one, ok := heap.Pop(a).(alarm)
	return one, ok
}

// wait is how long to wait for the first alarm.
func (a *alarms) wait(now time.Time) time.Duration {
	if len(a.all) == 0 {
		return time.Hour
	}
	return min(max(a.all[0].at.Sub(now), 0), clockStep)
}

// remove takes out some, and returns them in the order of their times.
func (a *alarms) remove(which func(alarm) bool) (removed []alarm) {
	kept := a.all[:0]
	for _, one := range a.all {
		if which(one) {
			removed = append(removed, one)
		} else {
			kept = append(kept, one)
		}
	}
	clear(a.all[len(kept):])
	a.all = kept
	heap.Init(a)
	slices.SortStableFunc(removed, func(x, y alarm) int { return x.at.Compare(y.at) })
	return removed
}

// keepTime rings the alarms until done.
func (h *hub) keepTime(done <-chan struct{}) {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		t.Reset(h.ring())
		h.tellCrowded()
		select {
		case <-t.C:
		case <-h.alarms.earlier:
		case <-done:
			return
		}
	}
}

// ring wakes what is due and expels what is late. It returns how long there is
// nothing else to do.
func (h *hub) ring() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for one, ok := h.alarms.due(now); ok; one, ok = h.alarms.due(now) {
		one.part.awaken(one)
		one.part.lane.enlist(one.part)
		h.pump(one.part.lane)
	}
	return min(h.alarms.wait(now), h.expelLate(now))
}

// sleep sets an alarm for the partition's first record.
func (p *partition) sleep(until time.Time) {
	p.napping = true
	p.hub.alarms.set(alarm{at: until, part: p})
}

// awaken is called when a job's time has come or, without one, that of the
// partition's first record.
func (p *partition) awaken(one alarm) {
	d := one.d
	if d == nil {
		p.napping = false
		return
	}
	p.parked -= d.size
	p.asleep--
	if one.retry {
		p.retries.push(d)
	} else {
		p.link(d)
		p.woken.push(d)
	}
	p.hub.rise(d)
}
