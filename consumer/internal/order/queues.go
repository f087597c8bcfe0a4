package order

import "dispatcher/consumer/internal/linked"

// Place is where a job stands in its key queue. The zero value is that of a job without one.
type Place[T any] struct {
	key    uint64
	behind *T
	joined bool
}

// NewPlace is the place of a job that has not joined yet. key is what [Keys.Of] returned.
func NewPlace[T any](key uint64) Place[T] { return Place[T]{key: key} }

// Key names the queue; 0: the job has none.
func (p *Place[T]) Key() uint64 { return p.key }

// Joined tells whether the job has joined its queue, at the head or behind others.
func (p *Place[T]) Joined() bool { return p.joined }

// Behind is the job that waits behind this one; nil: none does.
func (p *Place[T]) Behind() *T { return p.behind }

// Links knows the jobs of the queues.
type Links[T any] interface {
	Place(one *T) *Place[T] // where a job keeps its place
	Bytes(one *T) int       // of a job in memory; always the same
}

// Queues are the key queues of one partition and one assignment. The zero value is for an assignment that has ended: Leave returns nil,
// and Join must not be called.
type Queues[T any, L Links[T]] struct {
	last    map[uint64]*T // of each queue; nil: a job that was released has closed it
	waiting linked.Volume
}

// NewQueues makes queues without jobs.
func NewQueues[T any, L Links[T]]() Queues[T, L] { return Queues[T, L]{last: make(map[uint64]*T)} }

// Waiting is the volume of the jobs that wait behind another one.
func (q *Queues[T, L]) Waiting() linked.Volume { return q.waiting }

// Join puts a job into its queue. The job may go if it is the first there, or has no queue. A job may join again only when it is the first
// of its queue; it may go then. Otherwise previous is the job that it waits behind. Where previous is nil, the queue is closed, and the job
// has not joined.
func (q *Queues[T, L]) Join(one *T) (mayGo bool, previous *T) {
	var of L
	at := of.Place(one)
	if at.key == 0 || at.joined {
		return true, nil
	}
	last, hasQueue := q.last[at.key]
	if hasQueue && last == nil {
		return false, nil
	}
	q.last[at.key] = one
	at.joined = true
	if !hasQueue {
		return true, nil
	}
	of.Place(last).behind = one
	q.waiting.Plus(of.Bytes(one))
	return false, last
}

// Leave takes the first job out of its queue, and returns the next one, which may go; nil: none. After a job that is not settled none may
// go on this node: it would overtake that job. So its queue is closed then, and those that waited there are dropped. Leave has no effect
// on a job that has not joined, or after the end of the assignment.
func (q *Queues[T, L]) Leave(one *T, settled bool) (next *T) {
	var of L
	at := of.Place(one)
	if !at.joined || q.last == nil {
		return nil
	}
	next, at.behind = at.behind, nil
	switch {
	case !settled:
		q.last[at.key] = nil
		for ; next != nil; next = of.Place(next).behind {
			q.waiting.Minus(of.Bytes(next))
		}
	case next == nil:
		delete(q.last, at.key)
	default:
		q.waiting.Minus(of.Bytes(next))
	}
	return next
}
