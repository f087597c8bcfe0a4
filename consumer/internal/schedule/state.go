package schedule

import (
	"dispatcher/consumer/internal/backlog"
	"dispatcher/consumer/internal/states"
)

// on moves the delivery on. It returns the state before, and whether the event had an
// effect. The lock is held.
func (d *Delivery) on(e states.Event) (before states.State, ok bool) {
	before = d.state
	after, ok := before.Next(e)
	if ok {
		d.state = after
		switch is := after.Queued(); {
		case is == before.Queued():
		case is:
			d.count(1)
		default:
			d.count(-1)
		}
	}
	return before, ok
}

// comes gives a job that was fetched the next place of its lane, and counts it. Jobs of retry topics have no place: they wait
// for their time.
func (d *Delivery) comes() {
	d.number = d.part.src.Lane.backlog.Next()
	d.count(1)
}

// count counts a job that waits for its turn from now on, or with -1 no more.
func (d *Delivery) count(n int) {
	if d.part.src.Delay == 0 {
		d.part.src.Lane.backlog.Count(backlog.Job{Place: d.number, Units: d.turns(), NotAfter: d.Job.NotAfter}, n)
	}
}

// goes counts a job no more that is dropped.
func (d *Delivery) goes() {
	if d.state.Queued() {
		d.count(-1)
	}
}
