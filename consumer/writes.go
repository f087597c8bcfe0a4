package consumer

import (
	"context"
	"errors"
	"time"

	"dispatcher/consumer/internal/broker"
	"dispatcher/consumer/internal/produce"

	"dispatcher/internal/wait"
)

// write brings a record on its way that belongs to one of the assignment's jobs.
func (a *assignment) write(w *produce.Writer, o *produce.Request) {
	told := o.Done
	o.Done = func(err error) {
		told(err)
		a.writing.Add(-1)
	}
	a.writing.Add(1)
	w.Put(o)
}

// awaitWrites follows the drain: while no broker answers, it goes on to wait for
// records that may have been written. Nothing could be committed meanwhile, and
// nobody can take over; to give up would be to have their jobs called, and their
// records written, again. Once a broker answers, the records have as long as a
// last commit has.
func (a *assignment) awaitWrites(stopped <-chan struct{}) {
	if errors.Is(context.Cause(a.ctx), errFenced) {
		return
	}
	o := &a.g.c.opts
	room := max(o.Session-o.Heartbeat-o.Drain, lastCommit)
	var until time.Time // zero: brokers have answered so far
	for n := 0; a.writing.Load() > 0 && !ended(stopped); n++ {
		err := a.lastWord(nil, broker.CallTimeout, false)
		switch {
		case err != nil && until.IsZero():
			a.g.log().Warn("no broker answers; records that may have been written are awaited until one does", "error", err)
			fallthrough
		case err != nil:
			until = time.Now().Add(room)
		case !time.Now().Before(until):
			return
		}
		wait.For(context.Background(), wait.Backoff(n, 20*time.Millisecond, 200*time.Millisecond))
	}
}

// addWriter makes what brings records to the derived topics.
func (c *Consumer) addWriter() (err error) {
	o := &c.opts
	r := &writeReports{state: &c.state, metrics: c.metrics, log: o.Logger}
	if c.writer, err = produce.NewWriter(&o.Connection, o.Logger, r.report); err != nil {
		return err
	}
	c.writer.Retry = true
	c.hub.dead = newDeadLetters(o, c.writer, c.metrics, c.hub)
	if c.results, err = makeResults(o, c.writer); err == nil && c.results != nil {
		r.results = c.results.metrics
		c.results.reports = r
	}
	return err
}
