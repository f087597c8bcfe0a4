package group

import (
	"context"
	"errors"
	"time"

	"dispatcher/consumer/internal/broker"

	"dispatcher/internal/wait"
)

// awaitWrites follows the drain: while no broker answers, it goes on to wait for
// records that may have been written. Nothing could be committed meanwhile, and
// nobody can take over; to give up would be to have their jobs called, and their
// records written, again. Once a broker answers, the records have as long as a
// last commit has.
func (a *assignment) awaitWrites(stopped <-chan struct{}) {
	if errors.Is(context.Cause(a.Context()), errRemoved) {
		return
	}
	o := &a.g.o
	room := max(o.Session-o.Heartbeat-o.Drain, lastCommit)
	var until time.Time // zero: brokers have answered so far
	for n := 0; a.Writing().Load() > 0 && !ended(stopped); n++ {
		err := a.lastWord(nil, broker.CallTimeout, false)
		switch {
		case err != nil && until.IsZero():
			a.g.o.Log.Warn("no broker answers; records that may have been written are awaited until one does", "error", err)
			fallthrough
		case err != nil:
			until = time.Now().Add(room)
		case !time.Now().Before(until):
			return
		}
		wait.For(context.Background(), wait.Backoff(n, 20*time.Millisecond, 200*time.Millisecond))
	}
}

// awaitCalls waits until everything in hand is settled, as long as the drain
// allows, and commits as it goes.
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
		a.g.o.Log.Warn("calls were still under way at the end of the drain, their jobs will be sent again")
	}
}
