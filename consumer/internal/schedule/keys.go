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

// A key queue is the admitted jobs of one key, of one partition and one assignment. Its first
// job holds the key until it is settled: while it is ready, with a worker, asleep after a
// call or until a limit lets it pass, and while its record is being written. The others wait behind it, linked by
// nextOfKey. So within an assignment one job of a key is out at a time. They go in the order
// of their offsets, but for those with a not-before, which join when they are due. In
// partition order the partition is the key.
//
//	the first job …              the key                      the next job
//	sleeps after a call          stays held                   waits on
//	is requeued                  stays held                   waits on
//	waits for a limit, or is     stays held                   waits on
//	held by a rule
//	is done                      stays held, until its        may go then
//	                             result is in Kafka, where
//	                             results are written
//	is dead-lettered             stays held, until its        may go then
//	                             record is in Kafka
//	expires while it is ready    likewise                     may go then
//	or asleep after a call
//	times out                    likewise                     may go then, although a worker may
//	                                                          still be in the call of the first
//	is released                  is closed                    is dropped; its offset stays open for
//	                                                          the next assignment
//	is awaited in a drain        is gone with all queues      is dropped likewise
//
// With the dedup store, a worker calls Done or Dead only after the record of an answered call
// there. Once the assignment has ended, it waits for that until shortly before the end of the drain at most. The key is held for that time as well.
//
// A job that is not due yet is in no queue. It sleeps until its not-before or goes to a retry
// topic, and later jobs of its key overtake it. A job that has expired before it joins and a
// record that is no job never join: they go to the dead letters. With order key the records of
// a retry topic have queues of their own, with order partition they have none. A job that goes
// there after a timeout keeps no order with the jobs of the topic that it leaves.

// keyOf names the key queue of a record; 0: it has none, and no order. The record of a retry
// topic has left the order of its partition; with order key, such records keep that of a key.
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
	if d.key == 0 || d.inKeyQueue { // it has none, or it has joined before, and it is its turn
		return true
	}
	last, hasQueue := p.lastOfKey[d.key]
	if hasQueue && last == nil {
		return false
	}
	p.lastOfKey[d.key] = d
	d.inKeyQueue = true
	if !hasQueue {
		return true
	}
	last.nextOfKey = d
	p.behind.Plus(d.size)
	d.noteStep("waits behind another job of its key", slog.Int64("previous", last.Job.Offset))
	return false
}

// leaveKey lets the next job of the key go. After a job whose offset stays open none may
// go on this node: it would overtake that job. So the key is closed then. After a drain there
// are no key queues.
func (p *Partition) leaveKey(d *Delivery, settled bool) {
	if !d.inKeyQueue || p.lastOfKey == nil {
		return
	}
	following := d.nextOfKey
	d.nextOfKey = nil
	switch {
	case !settled:
		p.lastOfKey[d.key] = nil
		for ; following != nil; following = following.nextOfKey {
			p.behind.Minus(following.size)
		}
	case following == nil:
		delete(p.lastOfKey, d.key)
	default:
		p.behind.Minus(following.size)
		p.freed.Push(following)
	}
}
