package dedup

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	mostEntries = 64 // of one call: about 0.5 ms of Redis's time

	callTimeout = 250 * time.Millisecond

	// LastAttempts is for how long [Entry.Done] may go on when its context has ended: the attempt that is under way, and
	// the last one.
	LastAttempts = 2 * callTimeout
	retryFirst   = 20 * time.Millisecond // after a call that failed
	retryMost    = 200 * time.Millisecond
)

// Run sends entries to Redis until ctx ends, and then the remaining ones as long as
// Redis answers. It returns nil, and must be called once.
func (s *Store) Run(ctx context.Context) error {
	r := &runner{Store: s}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.finish()
			return nil
		case <-s.wake:
		case <-timer.C:
		}
		timer.Reset(r.step(time.Now()))
	}
}

// runner is the state of Run's goroutine, which alone uses it.
type runner struct {
	*Store

	failures int // calls in a row
	retryAt  time.Time
}

// idle is the pause while nothing is queued.
const idle = time.Hour

// step makes at most one call, and returns the pause until the next one.
func (r *runner) step(now time.Time) time.Duration {
	if d := r.pause(now); d > 0 {
		return d
	}
	r.call(r.batch())
	return max(0, r.pause(time.Now()))
}

// pause is how long until the next call.
func (r *runner) pause(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := &r.queue
	switch {
	case len(q.entries) == 0 && r.state == nil:
		q.urgent = false
		return idle
	case q.urgent:
		return 0
	case now.Before(r.retryAt):
		return r.retryAt.Sub(now)
	case len(q.entries) == 0 || len(q.entries) >= mostEntries:
		return 0
	}
	next := slices.MinFunc(q.entries, func(a, b *pending) int { return a.due.Compare(b.due) })
	return next.due.Sub(now)
}

// batch copies the head of the queue, without abandoned entries.
func (r *runner) batch() []*pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue.urgent = false
	r.dropLocked(func(p *pending) bool { return p.abandoned != nil && p.abandoned() })
	for _, p := range r.queue.entries {
		p.last = p.ended != nil && p.ended()
	}
	head := r.queue.entries[:min(mostEntries, len(r.queue.entries))]
	return slices.Clone(head)
}

// dropLocked removes entries from the queue and returns them.
func (r *runner) dropLocked(which func(*pending) bool) (dropped []*pending) {
	q := &r.queue
	q.entries = slices.DeleteFunc(q.entries, func(p *pending) bool {
		if !which(p) {
			return false
		}
		dropped = append(dropped, p)
		if p.verb == verbRelease {
			q.releases--
		}
		return true
	})
	r.metrics.waiting.Set(float64(len(q.entries)))
	return dropped
}

// call sends a batch to Redis. If it fails, entries whose jobs' contexts had ended
// before get no further attempt, those outside of the batch included. An empty batch is
// sent only after a call that failed: it shows when Redis answers again.
func (r *runner) call(batch []*pending) {
	if len(batch) == 0 && r.Ready() == nil {
		return
	}
	requests := make([]request, len(batch))
	for i, p := range batch {
		requests[i] = p.request
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	askedAt, suspended := time.Now(), r.suspended()
	results, lost, err := r.run(ctx, requests)
	r.report(err, lost, time.Since(askedAt))
	if err != nil {
		r.settle(func(p *pending) bool { return p.last }, ErrUnacknowledged)
		return
	}
	for i, p := range batch {
		p.reply, p.replied = reply{result: results[i], askedAt: askedAt, suspended: suspended}, true
		r.metrics.answered(p.verb, results[i])
	}
	r.settle(func(p *pending) bool { return p.replied }, nil)
}

// settle removes entries and answers them, outside of the lock.
func (r *runner) settle(which func(*pending) bool, err error) {
	r.mu.Lock()
	dropped := r.dropLocked(which)
	r.mu.Unlock()
	for _, p := range dropped {
		p.answer(err)
	}
}

// report notes the end of a call. It logs the first failure and the first success
// after it.
func (r *runner) report(err error, lost bool, took time.Duration) {
	r.metrics.called(err, took)
	if lost {
		r.metrics.lost.Inc()
		r.log.Warn("redis has lost the dedup store: jobs that were sent before may be sent again if they are delivered again")
	}
	r.mu.Lock()
	before := r.state
	r.state = err
	if err == nil {
		r.queue.latency += (took - r.queue.latency) / 8
	}
	r.mu.Unlock()
	if err == nil {
		if before != nil {
			r.log.Info("dedup store answers again")
		}
		r.failures, r.retryAt = 0, time.Time{}
		return
	}
	if before == nil {
		r.log.Warn("dedup store does not answer; jobs wait", "error", err)
	}
	wait := min(retryMost, retryFirst<<min(r.failures, 4))
	r.failures++
	r.retryAt = time.Now().Add(wait/2 + rand.N(wait/2+1))
}

// finish sends the remaining entries to Redis, and gives up at the first failure.
func (r *runner) finish() {
	for {
		batch := r.batch()
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
	r.settle(func(*pending) bool { return true }, ErrClosed)
}
