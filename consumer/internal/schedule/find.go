package schedule

import (
	"time"

	"dispatcher/consumer/internal/offsets"
)

// Place is where a job stands in Kafka.
type Place struct {
	Topic     string
	Partition int
	Offset    int64
}

// WaitsFor says what a job of this node waits for.
type WaitsFor string

// What jobs wait for. A job that is ready or taken waits for something outside this package.
const (
	WaitsForLane     WaitsFor = "lane"       // as many jobs of its lane are ready and in flight as may be
	WaitsForSleepers WaitsFor = "sleepers"   // as many jobs sleep as may
	WaitsForOffsets  WaitsFor = "offsets"    // the lowest open offset of its partition is too far behind
	WaitsForOrder    WaitsFor = "order"      // a job of its key goes first; in partition order, one of its partition
	WaitsForTime     WaitsFor = "not_before" // its not-before, or the delay of its retry topic
	WaitsForRetry    WaitsFor = "retry"      // its next call: the last one failed
	WaitsForProvider WaitsFor = "provider"   // likewise, or the end of the outage
	WaitsForLimit    WaitsFor = "limit"      // a limit after the first
	WaitsForHold     WaitsFor = "hold"       // the end of a rule by which an operator holds it
	WaitsForTurn     WaitsFor = "turn"       // it is ready, and waits for a slot
	WaitsForCall     WaitsFor = "call"       // it was taken: it has a slot, is called, or its result is written
	WaitsForRecord   WaitsFor = "record"     // its dead letter, or its record of a retry topic, is to be written
)

// Stay is where a job is on this node, and what it waits for.
type Stay struct {
	Place

	ID     string
	Lane   string
	For    WaitsFor
	Until  time.Time        // when the wait ends at the latest; zero: not known
	Limit  string           // that it waits for
	Ahead  int              // jobs of its lane, in a fair lane of its tenant, that are ready on this node and go before it
	Tenant string           // in a fair lane
	Behind *Stay            // the first job of its key, which it waits for; nil: none
	Calls  offsets.Attempts // so far
	Slot   time.Time        // that it was granted last; zero: none yet
}

// Find returns the jobs that a function matches, so many at most. The function is called with the
// lock held, which is free between two partitions.
func (s *Scheduler) Find(match func(*Delivery) bool, most int) (found []Stay) {
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

func (p *Partition) find(match func(*Delivery) bool, most int) (found []Stay) {
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
	for d := p.open.oldest; d != nil; d = d.newer {
		do(d)
	}
	for t := range p.sched.timers.All() {
		if t.part == p && t.d != nil && !t.retry { // it waits for its time, and is not among those open
			do(t.d)
		}
	}
	for d := p.buffer.head; d != nil; d = d.next {
		do(d)
	}
}

// stay says what a job waits for. The lock is held.
func (d *Delivery) stay() Stay {
	one := Stay{
		Place: Place{d.Job.Topic, d.Job.Partition, d.Job.Offset}, ID: d.Job.ID, Lane: d.Lane(), Calls: d.attempts, Slot: d.Slot(),
	}
	switch d.state {
	case fetched:
		one.For, one.Until = d.part.buffered()
	case waiting:
		one.For = WaitsForLane
		if first := d.part.firstOfKey(d); first != d {
			behind := first.stay()
			one.For, one.Behind = WaitsForOrder, &behind
		}
	case asleep:
		one.For, one.Until = d.sleepsFor()
		one.Limit = d.limit
	case ready:
		one.For, one.Ahead, one.Tenant = WaitsForTurn, d.part.src.Lane.ready.Before(func(one *Delivery) bool { return one == d }), d.tenant
	case inFlight, timedOut, abandoned, over:
		one.For = WaitsForCall
	case writing, diverted:
		one.For = WaitsForRecord
	}
	return one
}

// buffered says why the first job of the buffer waits, and with it all others there.
func (p *Partition) buffered() (reason WaitsFor, until time.Time) {
	switch first := p.buffer.head; {
	case p.headWaits:
		return WaitsForTime, first.times.lookAt
	case p.sleepersFull():
		return WaitsForSleepers, time.Time{}
	case first.Job.Offset-p.tracker.Low() >= offsets.Window:
		return WaitsForOffsets, time.Time{}
	}
	return WaitsForLane, time.Time{}
}

// sleepsFor says what a job that is asleep waits for.
func (d *Delivery) sleepsFor() (reason WaitsFor, until time.Time) {
	t, at := d.part.sched.timers.At(d.timer)
	switch {
	case d.limit != "" && d.held:
		return WaitsForHold, at
	case d.limit != "":
		return WaitsForLimit, at
	case t.early:
		return WaitsForProvider, at
	case t.retry:
		return WaitsForRetry, at
	}
	return WaitsForTime, at
}

// firstOfKey is the first job in the key queue of a job: itself where it has none. Most jobs of a key lie behind each other in the
// order of their offsets, so that one look at all of them, from the newest on, is enough.
func (p *Partition) firstOfKey(d *Delivery) *Delivery {
	if !d.inKeyQueue {
		return d
	}
	first := d
	for moved := true; moved; {
		moved = false
		for one := p.open.newest; one != nil; one = one.older {
			if one.nextOfKey == first {
				first, moved = one, true
			}
		}
	}
	return first
}

// Progress says how far a partition of this node has come.
type Progress struct {
	Settled bool  // the offset is done, is a dead letter or has gone to a retry topic; or it holds no job
	Fetched int64 // all records before this one were fetched
	End     int64 // of the log, as of the last fetch
}

// ProgressOf says how far the partition of a place has come; false: this node does not work it.
func (s *Scheduler) ProgressOf(at Place) (r Progress, ok bool) {
	for _, p := range s.partitions() {
		if p.src.Topic == at.Topic && p.id == at.Partition {
			s.mu.Lock()
			defer s.unlock()
			t := &p.tracker
			settled := at.Offset < t.Low() || at.Offset < t.Low()+offsets.Window && t.IsComplete(at.Offset)
			return Progress{Settled: settled, Fetched: p.fetched, End: p.stable}, p.asg.phase == working
		}
	}
	return r, false
}
