package dedup

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	most = 64 // entries of one call: about 0.5 ms of Redis's time

	callTimeout = 250 * time.Millisecond
	retryFirst  = 20 * time.Millisecond // after a call that failed
	retryMost   = 200 * time.Millisecond
)

// Run brings entries to Redis until ctx ends, and then what is left of them,
// as long as Redis answers. It returns nil, and is to be called once.
func (l *Store) Run(ctx context.Context) error {
	r := &runner{Store: l}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.finish()
			return nil
		case <-l.wake:
		case <-timer.C:
		}
		timer.Reset(r.step(time.Now()))
	}
}

// runner is the state of Run's goroutine; nobody else touches it.
type runner struct {
	*Store
	failures int // calls in a row
	retryAt  time.Time
}

// idle is how long nothing is to be done when nothing is queued.
const idle = time.Hour

// step makes at most one call, and returns how long nothing is to be done
// unless something is queued.
func (r *runner) step(now time.Time) time.Duration {
	if d := r.plan(now); d > 0 {
		return d
	}
	r.call(r.take())
	return max(0, r.plan(time.Now()))
}

// plan is how long until the next call.
func (r *runner) plan(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := &r.queue
	switch {
	case len(q.ops) == 0:
		q.hurried = false
		return idle
	case q.hurried:
		return 0
	case now.Before(r.retryAt):
		return r.retryAt.Sub(now)
	case len(q.ops) >= most:
		return 0
	}
	due := q.ops[0].due
	for _, o := range q.ops[1:] {
		if o.due.Before(due) {
			due = o.due
		}
	}
	return due.Sub(now)
}

// take copies the head of the queue, without what nobody waits for.
func (r *runner) take() []*op {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue.hurried = false
	r.drop(func(o *op) bool { return o.gone != nil && o.gone() })
	head := r.queue.ops[:min(most, len(r.queue.ops))]
	return append([]*op(nil), head...)
}

// drop removes entries from the queue and returns them. The lock is held.
func (r *runner) drop(which func(*op) bool) (dropped []*op) {
	q := &r.queue
	kept := q.ops[:0]
	for _, o := range q.ops {
		if !which(o) {
			kept = append(kept, o)
			continue
		}
		dropped = append(dropped, o)
		if o.verb == verbRelease {
			q.releases--
		}
	}
	clear(q.ops[len(kept):])
	q.ops = kept
	r.metrics.waiting.Set(float64(len(q.ops)))
	return dropped
}

// call brings a batch to Redis. Those whose jobs' contexts had ended before get
// no other try.
func (r *runner) call(batch []*op) {
	if len(batch) == 0 {
		return
	}
	asks, ended := make([]ask, len(batch)), make(map[*op]bool)
	for i, o := range batch {
		asks[i] = o.ask
	}
	for _, o := range r.over() {
		ended[o] = true
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	askedAt := time.Now()
	answers, lost, err := r.run(ctx, asks)
	r.report(err, lost, time.Since(askedAt))
	if err != nil {
		r.settle(func(o *op) bool { return ended[o] }, func(*op) (reply, error) { return reply{}, ErrUnwritten })
		return
	}
	of := make(map[*op]reply, len(batch))
	for i, o := range batch {
		of[o] = reply{told: answers[i], askedAt: askedAt}
		r.metrics.told(o.verb, answers[i])
	}
	r.settle(func(o *op) bool { _, ok := of[o]; return ok }, func(o *op) (reply, error) { return of[o], nil })
}

// over is all that is queued and has one try left.
func (r *runner) over() (ops []*op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.queue.ops {
		if o.ended != nil && o.ended() {
			ops = append(ops, o)
		}
	}
	return ops
}

// settle removes entries and answers them, outside of the lock.
func (r *runner) settle(which func(*op) bool, with func(*op) (reply, error)) {
	r.mu.Lock()
	dropped := r.drop(which)
	r.mu.Unlock()
	for _, o := range dropped {
		o.answered(with(o))
	}
}

// report notes how a call went. A change for the worse or the better is logged
// once.
func (r *runner) report(err error, lost bool, took time.Duration) {
	r.metrics.called(err, took)
	if lost {
		r.metrics.lost.Inc()
		r.log.Warn("redis has lost the dedup store: jobs that were sent before may be sent again if they are delivered again")
	}
	r.mu.Lock()
	was := r.state
	r.state = err
	if err == nil {
		r.queue.usual += (took - r.queue.usual) / 8
	}
	r.mu.Unlock()
	if err == nil {
		if was != nil {
			r.log.Info("dedup store answers again")
		}
		r.failures, r.retryAt = 0, time.Time{}
		return
	}
	if was == nil {
		r.log.Warn("dedup store does not answer; jobs wait", "error", err)
	}
	wait := min(retryMost, retryFirst<<min(r.failures, 4))
	r.failures++
	r.retryAt = time.Now().Add(wait/2 + rand.N(wait/2+1))
}

// finish brings what is left to Redis, and gives up at the first failure.
func (r *runner) finish() {
	for {
		batch := r.take()
		if len(batch) == 0 {
			break
		}
		if r.call(batch); r.failures > 0 {
			break
		}
	}
	r.mu.Lock()
	r.queue.closed = true
	r.mu.Unlock()
	r.settle(func(*op) bool { return true }, func(*op) (reply, error) { return reply{}, ErrClosed })
}
