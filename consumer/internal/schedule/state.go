package schedule

import "dispatcher/consumer/internal/backlog"

// state is where a delivery is. The scheduler's lock guards it.
type state uint8

const (
	fetched   state = iota // in its partition's buffer
	waiting                // admitted: behind a job of its key, or in a queue of its partition
	asleep                 // in memory until a timer ends
	ready                  // in its lane's queue
	inFlight               // the pacer has taken it, or a worker has it
	writing                // a record is being written for it; then over, unless it can't be written
	diverted               // goes to the dead letters or to a retry topic, and to no worker
	timedOut               // likewise, while a worker still has it
	abandoned              // over, while a worker still has it
	over                   // for this node: settled, or released with its offset open
	states    = iota
)

// event is what happens to a delivery.
type event uint8

const (
	admit       event = iota // the offset tracker takes its offset
	sleep                    // it has to wait for a time
	wake                     // that time has come
	enqueue                  // it only waits to be taken
	handOut                  // it is taken for a worker
	requeue                  // the worker could not call it
	putBack                  // there is no slot for it
	beginRecord              // a record has to be written before it is settled; it does not time out any more
	abortRecord              // that record can't be written; the worker goes on
	divert                   // no worker is to see it
	timeOut                  // it was taken too long ago
	letGo                    // the worker lets it go: it is done, released, or was timed out
	recorded                 // the last record that it needs is in Kafka, or given up
	events      = iota
)

// next is the state that follows an event. It returns false for an event that has no
// effect in a state, such as a worker that lets a job go twice.
func next(s state, e event) (state, bool) {
	switch e {
	case admit:
		return waiting, s == fetched
	case sleep:
		return asleep, s == waiting || s == inFlight || s == writing || s == diverted
	case wake:
		return waiting, s == asleep
	case enqueue:
		return ready, s == waiting
	case handOut:
		return inFlight, s == ready
	case requeue:
		return waiting, s == inFlight || s == writing
	case putBack:
		return ready, s == inFlight || s == writing
	case beginRecord:
		return writing, s == inFlight || s == writing
	case abortRecord:
		return inFlight, s == writing
	case divert:
		return diverted, s == waiting || s == ready
	case timeOut:
		return timedOut, s == inFlight
	case letGo:
		if s == timedOut {
			return diverted, true // that only frees the worker
		}
		return over, s.decidable() || s == abandoned
	case recorded:
		if s == timedOut {
			return abandoned, true
		}
		return over, s == writing || s == diverted
	}
	return s, false
}

// on moves the delivery on. It returns the state before, and whether the event had an
// effect. The lock is held.
func (d *Delivery) on(e event) (before state, ok bool) {
	before = d.state
	after, ok := next(before, e)
	if ok {
		d.state = after
		switch is := after.queued(); {
		case is == before.queued():
		case is:
			d.count(1)
		default:
			d.count(-1)
		}
	}
	return before, ok
}

// decidable tells whether a worker has the delivery and decides what becomes of it.
func (s state) decidable() bool { return s == inFlight || s == writing }

// late tells whether a worker has the delivery although it timed out.
func (s state) late() bool { return s == timedOut || s == abandoned }

// queued tells whether a job in this state waits for its turn.
func (s state) queued() bool { return s == fetched || s == waiting || s == ready }

// comes gives a job that was fetched the next place of its lane, and counts it. Jobs of retry topics have no place: they wait
// for their time.
func (d *Delivery) comes() {
	d.place = d.part.src.Lane.backlog.Next()
	d.count(1)
}

// count counts a job that waits for its turn from now on, or with -1 no more.
func (d *Delivery) count(n int) {
	if d.part.src.Delay == 0 {
		d.part.src.Lane.backlog.Count(backlog.Job{Place: d.place, Units: d.turns(), NotAfter: d.Job.NotAfter}, n)
	}
}

// goes counts a job no more that is dropped.
func (d *Delivery) goes() {
	if d.state.queued() {
		d.count(-1)
	}
}
