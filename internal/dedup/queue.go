package dedup

import (
	"context"
	"time"
)

const (
	mostReleases = 4096                 // kept while Redis is away; beyond it a claim stays until its hold is over
	peekWait     = 3 * time.Millisecond // within which a peek is needed
	lead         = time.Millisecond     // before a claim is needed, on top of twice the usual latency
)

// reply is Redis's result for an entry, and when it was asked for.
type reply struct {
	result
	askedAt   time.Time
	suspended time.Duration // what boottime.Suspended returned then
}

// pending is an entry that Redis has not answered.
type pending struct {
	request
	neededBy  time.Time          // when a claim or peek is needed; zero: now
	due       time.Time          // when it is sent at the latest
	abandoned func() bool        // nobody waits for it any more; nil: never
	ended     func() bool        // its job's context has ended, so one attempt is left; nil: never
	then      func(reply, error) // nil: nobody needs the reply

	// Owned by Run's goroutine.
	last    bool // it had ended before the attempt under way
	replied bool
	reply   reply
}

func (p *pending) answer(err error) {
	if p.then != nil {
		p.then(p.reply, err)
	}
}

// queue holds the pending entries in order. An entry leaves it only when it is
// answered, so a call that failed is repeated as it was.
type queue struct {
	entries  []*pending
	releases int
	latency  time.Duration // of a call, smoothed
	urgent   bool
	closed   bool
}

// await queues an entry and waits for its reply.
func (s *Store) await(ctx context.Context, p *pending) (reply, error) {
	type outcome struct {
		reply
		err error
	}
	ch := make(chan outcome, 1) // one slot: the caller may be gone
	p.abandoned = func() bool { return ctx.Err() != nil }
	p.then = func(r reply, err error) { ch <- outcome{r, err} }
	s.push(p)
	select {
	case o := <-ch:
		return o.reply, o.err
	case <-ctx.Done():
		return reply{}, context.Cause(ctx)
	}
}

func (s *Store) push(p *pending) {
	if !s.enqueue(p, time.Now()) {
		p.answer(ErrClosed)
		return
	}
	s.signal()
}

// enqueue takes an entry, unless the store is closed. It takes no release beyond the
// bound: that claim stands, and ends as unknown.
func (s *Store) enqueue(p *pending, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &s.queue
	if q.closed || p.verb == verbRelease && q.releases == mostReleases {
		return false
	}
	p.due = now.Add(s.gather)
	if p.verb == verbClaim || p.verb == verbPeek {
		if at := p.neededBy.Add(-lead - 2*q.latency); at.Before(p.due) {
			p.due = at
		}
	}
	if p.verb == verbRelease {
		q.releases++
	}
	q.entries = append(q.entries, p)
	s.metrics.waiting.Set(float64(len(q.entries)))
	return true
}

func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// hurry has Run call Redis at once, for a job whose context has ended.
func (s *Store) hurry() {
	s.mu.Lock()
	s.queue.urgent = true
	s.mu.Unlock()
	s.signal()
}
