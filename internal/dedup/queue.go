package dedup

import (
	"context"
	"time"
)

const (
	mostRelease = 4096                 // releases that are kept while Redis is away; a claim that stays is only looked into for longer
	lookWait    = 3 * time.Millisecond // a look gathers for about one
	lead        = time.Millisecond     // before a claim is needed, on top of twice the usual time of a call
)

// reply is what Redis said of an entry, and when it was asked.
type reply struct {
	told
	askedAt time.Time
}

// op is an entry on its way.
type op struct {
	ask
	by    time.Time          // when a claim or look is needed; zero: now
	due   time.Time          // when it goes at the latest
	gone  func() bool        // nobody waits for it any more; nil: somebody does
	ended func() bool        // it is tried once more only; nil: never
	then  func(reply, error) // nil: nobody wants to know
}

func (o *op) answered(r reply, err error) {
	if o.then != nil {
		o.then(r, err)
	}
}

// queue is the entries that Redis has not answered, in order. An entry leaves
// it only when it is answered, so a call that failed is made again as it was.
type queue struct {
	ops      []*op
	releases int
	usual    time.Duration // of a call, smoothed
	hurried  bool
	closed   bool
}

// ask queues an entry and waits for its answer.
func (l *Store) ask(ctx context.Context, o *op) (reply, error) {
	type result struct {
		reply
		err error
	}
	ch := make(chan result, 1)
	o.gone = func() bool { return ctx.Err() != nil }
	o.then = func(r reply, err error) { ch <- result{r, err} }
	l.push(o)
	select {
	case r := <-ch:
		return r.reply, r.err
	case <-ctx.Done():
		return reply{}, context.Cause(ctx)
	}
}

func (l *Store) push(o *op) {
	if !l.enqueue(o, time.Now()) {
		o.answered(reply{}, ErrClosed)
		return
	}
	l.signal()
}

// enqueue takes an entry, unless the dedup store is closed. Of releases beyond the
// bound none is taken: the claim stands, and ends as unknown.
func (l *Store) enqueue(o *op, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := &l.queue
	if q.closed || o.verb == verbRelease && q.releases == mostRelease {
		return false
	}
	o.due = now.Add(l.gather)
	if o.verb == verbClaim || o.verb == verbLook {
		if at := o.by.Add(-lead - 2*q.usual); at.Before(o.due) {
			o.due = at
		}
	}
	if o.verb == verbRelease {
		q.releases++
	}
	q.ops = append(q.ops, o)
	l.metrics.waiting.Set(float64(len(q.ops)))
	return true
}

func (l *Store) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// hurry has Redis asked at once, for a job whose context has ended.
func (l *Store) hurry() {
	l.mu.Lock()
	l.queue.hurried = true
	l.mu.Unlock()
	l.signal()
}
