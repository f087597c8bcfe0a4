package schedule

import (
	"hash/maphash"
	"log/slog"
)

// Order is which jobs are handed out one at a time, in the order of their offsets. A job
// that is tried again in place holds those behind it.
type Order string

// The orders.
const (
	OrderKey       Order = "key"       // those of one key
	OrderPartition Order = "partition" // those of one partition
	OrderNone      Order = "none"      // none
)

// Jobs of one key go one at a time, in the order of their offsets. The first of a key queue
// holds the key; the others wait behind it, linked by nextOfKey. A queue belongs to one
// partition of one topic and to one assignment: the records of a retry topic have queues of
// their own.
//
//	the first job …             the key                  the next job
//	sleeps, is requeued         stays held               waits on
//	is done                     is free                  may go
//	is dead-lettered            stays held, until Kafka  may go then
//	                            has the record
//	times out                   likewise                 may go then, although a worker may
//	                                                     still be in the call of the first
//	is released                 is closed                is dropped; its offset stays open for
//	                                                     the next assignment

// keyOf names the key queue of a record; 0: it has none, and no order. The record of a retry
// topic has left the order of its partition; among such records, that of a key holds.
func (p *Partition) keyOf(key []byte) uint64 {
	switch order := p.sched.opts.Order; {
	case order == OrderPartition && p.src.Delay == 0:
		return 1
	case order != OrderKey || len(key) == 0:
		return 0
	}
	return max(maphash.Bytes(p.sched.seed, key), 1)
}

// joinKeyQueue puts a job into its key queue, and tells whether the job is the first and may
// go. Where the key is closed the job is dropped: its offset stays open.
func (p *Partition) joinKeyQueue(d *Delivery) bool {
	if d.key == 0 || d.inKeyQueue { // it slept, and kept its key
		return true
	}
	last, hasQueue := p.keys[d.key]
	if hasQueue && last == nil {
		return false
	}
	p.keys[d.key] = d
	d.inKeyQueue = true
	if !hasQueue {
		return true
	}
	last.nextOfKey = d
	p.behind.plus(d)
	d.noteStep("waits behind another job of its key", slog.Int64("behind", last.Job.Offset))
	return false
}

// leaveKey lets the next job of the key go. After a job whose offset stays open none may
// go on this node: it would overtake that job. So the key is closed then. After a drain there
// are no key queues.
func (p *Partition) leaveKey(d *Delivery, done bool) {
	if !d.inKeyQueue || p.keys == nil {
		return
	}
	following := d.nextOfKey
	d.nextOfKey = nil
	switch {
	case !done:
		p.keys[d.key] = nil
		for ; following != nil; following = following.nextOfKey {
			p.behind.minus(following)
		}
	case following == nil:
		delete(p.keys, d.key)
	default:
		p.behind.minus(following)
		p.freed.push(following)
	}
}
