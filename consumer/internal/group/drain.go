package group

import (
	"context"
	"errors"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/internal/wait"
)

// awaitWrites waits after the drain for records that may have been written, while no broker
// answers. Nothing could be committed meanwhile, and no member can take over. If it gave up,
// the jobs would be called, and their records written, again. Once a broker answers, it
// waits as long as for a last commit.
func (a *assignment) awaitWrites(stopped <-chan struct{}) {
	if errors.Is(context.Cause(a.Context()), errRemoved) {
		return
	}
	room := a.g.o.lastCommitTime()
	var until time.Time // zero: brokers have answered so far
	for n := 0; a.Writing().Load() > 0 && !ended(stopped); n++ {
		err := a.lastRequest(nil, broker.CallTimeout, false)
		switch {
		case err != nil && until.IsZero():
			a.g.o.Log.Warn("no broker answered, waiting for records that may have been written", "error", err)
			fallthrough
		case err != nil:
			until = time.Now().Add(room)
		case !time.Now().Before(until):
			return
		}
		wait.For(context.Background(), wait.Backoff(n, 20*time.Millisecond, 200*time.Millisecond))
	}
}

// awaitSlots waits for as long as jobs that have a slot may be called: not at all where the group has moved on, since another
// member calls them.
func (a *assignment) awaitSlots() {
	if errors.Is(context.Cause(a.Context()), errRemoved) {
		return
	}
	t := time.NewTimer(a.drainLeft(a.g.o.SlotTime))
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.Idle():
	}
}

// awaitCalls waits until all jobs in flight are settled, as long as the drain allows, and
// commits meanwhile.
func (a *assignment) awaitCalls() {
	if errors.Is(context.Cause(a.Context()), errRemoved) {
		return
	}
	t := time.NewTimer(a.drainLeft(a.g.o.Drain))
	defer t.Stop()
	a.commitLoop(a.Idle(), t.C)
	select {
	case <-a.Idle():
	default:
		a.g.o.Log.Warn("drain ended with calls in flight, their jobs will be sent again")
	}
}
