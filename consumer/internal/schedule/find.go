package schedule

import (
	"time"

	"dispatcher/consumer/internal/offsets"
	"dispatcher/consumer/internal/states"
	"dispatcher/consumer/internal/status"
)

// Find returns the jobs that a function matches, so many at most. The function is called with the
// lock held, which is free between two partitions.
func (s *Scheduler) Find(match func(*Delivery) bool, most int) (found []status.Stay) {
	for _, p := range s.partitions() {
		if len(found) == most {
			break
		}
		found = append(found, p.find(match, most-len(found))...)
	}
	return found
}

// partitions are those from which jobs are handed out.
func (s *Scheduler) partitions() (parts []*Partition) {
	s.mu.Lock()
	defer s.unlock()
	for a := range s.live {
		if a.phase == working {
			parts = append(parts, a.parts...)
		}
	}
	return parts
}

func (p *Partition) find(match func(*Delivery) bool, most int) (found []status.Stay) {
	p.sched.mu.Lock()
	defer p.sched.unlock()
	if p.asg.phase != working {
		return nil
	}
	p.each(func(d *Delivery) {
		if len(found) < most && match(d) {
			found = append(found, d.stay())
		}
	})
	return found
}

// each calls do with each job of the partition that is not settled.
func (p *Partition) each(do func(*Delivery)) {
	for d := p.open.Oldest(); d != nil; d = d.newer {
		do(d)
	}
	for t := range p.sched.timers.All() {
		if t.part == p && t.d != nil && !t.holdsKey { // it waits for its time, and is not among those open
			do(t.d)
		}
	}
	for d := p.buffer.Head(); d != nil; d = d.next {
		do(d)
	}
}

// stay says what a job waits for. The lock is held.
func (d *Delivery) stay() status.Stay {
	one := status.Stay{
		Place: status.Place{Topic: d.Job.Topic, Partition: d.Job.Partition, Offset: d.Job.Offset},
		ID:    d.Job.ID, Lane: d.Lane(), Calls: d.attempts, Slot: d.Slot(),
	}
	switch d.state {
	case states.Fetched:
		one.For, one.Until = d.part.buffered()
	case states.Waiting:
		one.For = status.WaitsForLane
		if first := d.part.firstOfKey(d); first != d {
			behind := first.stay()
			one.For, one.Behind = status.WaitsForOrder, &behind
		}
	case states.Asleep:
		one.For, one.Until = d.sleepsFor()
		one.Limit = d.limit()
	case states.Ready:
		one.For, one.Ahead, one.Tenant = status.WaitsForTurn, d.part.src.Lane.ready.Before(func(one *Delivery) bool { return one == d }), d.tenant
	case states.InFlight, states.Abandoned, states.Over:
		one.For = status.WaitsForCall
	case states.Writing, states.Diverted, states.TimedOut: // the key of one that timed out is free once its record is written
		one.For = status.WaitsForRecord
	}
	return one
}

// buffered says why the first job of the buffer waits, and with it all others there.
func (p *Partition) buffered() (reason status.WaitsFor, until time.Time) {
	switch first := p.buffer.Head(); {
	case p.headWaits:
		return status.WaitsForTime, first.wait.lookAt
	case p.sleepersFull():
		return status.WaitsForSleepers, time.Time{}
	case first.Job.Offset-p.tracker.Low() >= offsets.Window:
		return status.WaitsForOffsets, time.Time{}
	}
	return status.WaitsForLane, time.Time{}
}

// sleepsFor says what a job that is asleep waits for.
func (d *Delivery) sleepsFor() (reason status.WaitsFor, until time.Time) {
	t, at := d.part.sched.timers.At(d.wait.timer)
	switch {
	case d.wait.limit != "" && d.wait.held:
		return status.WaitsForHold, d.passesAt(at)
	case d.wait.limit != "":
		return status.WaitsForLimit, d.passesAt(at)
	case t.early:
		return status.WaitsForProvider, at
	case t.holdsKey:
		return status.WaitsForRetry, at
	}
	return status.WaitsForTime, at
}

// passesAt is when a limit lets the job pass, or a rule ends, as far as is known. Its timer ends no later, so that it is looked at again.
func (d *Delivery) passesAt(timer time.Time) time.Time {
	if d.wait.passes.IsZero() {
		return timer
	}
	return d.wait.passes
}

// firstOfKey is the first job in the key queue of a job: itself where it has none. Most jobs of a key lie behind each other in the
// order of their offsets. So one look at all of them, from the newest on, mostly finds it, and a second one finds nothing more.
func (p *Partition) firstOfKey(d *Delivery) *Delivery {
	if !d.keyQueue.Joined() {
		return d
	}
	first := d
	for moved := true; moved; {
		moved = false
		for one := p.open.Newest(); one != nil; one = one.older {
			if one.keyQueue.Behind() == first {
				first, moved = one, true
			}
		}
	}
	return first
}

// ProgressOf says how far the partition of a place has come; false: this node does not work it.
func (s *Scheduler) ProgressOf(at status.Place) (r status.Progress, ok bool) {
	for _, p := range s.partitions() {
		if p.src.Topic == at.Topic && p.id == at.Partition {
			s.mu.Lock()
			defer s.unlock()
			t := &p.tracker
			settled := at.Offset < t.Low() || at.Offset < t.Low()+offsets.Window && t.IsComplete(at.Offset)
			return status.Progress{Settled: settled, Fetched: p.fetched, End: p.stable}, p.asg.phase == working
		}
	}
	return r, false
}
