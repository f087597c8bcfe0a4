package schedule

import "time"

// volume is a number of jobs and their bytes in memory.
type volume struct{ jobs, bytes int }

func (v *volume) plus(d *Delivery)  { v.jobs, v.bytes = v.jobs+1, v.bytes+d.size }
func (v *volume) minus(d *Delivery) { v.jobs, v.bytes = v.jobs-1, v.bytes-d.size }

// list is a queue of deliveries, linked by Delivery.next. It knows its volume.
type list struct {
	head, tail *Delivery
	volume
}

func (l *list) push(d *Delivery) {
	l.plus(d)
	if l.tail == nil {
		l.head = d
	} else {
		l.tail.next = d
	}
	l.tail = d
}

func (l *list) pushFront(d *Delivery) {
	l.plus(d)
	d.next = l.head
	if l.head = d; l.tail == nil {
		l.tail = d
	}
}

func (l *list) pop() *Delivery {
	d := l.head
	l.minus(d)
	if l.head = d.next; l.head == nil {
		l.tail = nil
	}
	d.next = nil
	return d
}

// remove takes out the delivery at a place, from 0; nil: there is none.
func (l *list) remove(at int) *Delivery {
	if at <= 0 {
		if at < 0 || l.head == nil {
			return nil
		}
		return l.pop()
	}
	before := l.head
	for ; at > 1 && before != nil; at-- {
		before = before.next
	}
	if before == nil || before.next == nil {
		return nil
	}
	d := before.next
	l.minus(d)
	if before.next = d.next; before.next == nil {
		l.tail = before
	}
	d.next = nil
	return d
}

// openJobs links a partition's open jobs in the order of their offsets, by Delivery.older
// and Delivery.newer. So the oldest is known, whatever is settled in between. Jobs that
// sleep until their first call are left out: they wait for their time, and not for this
// node.
type openJobs struct{ oldest, newest *Delivery }

func (o *openJobs) add(d *Delivery) {
	d.older = o.newest
	if o.newest == nil {
		o.oldest = d
	} else {
		o.newest.newer = d
	}
	o.newest = d
}

// remove has no effect on a job that is not linked.
func (o *openJobs) remove(d *Delivery) {
	if d.older != nil {
		d.older.newer = d.newer
	} else if o.oldest == d {
		o.oldest = d.newer
	}
	if d.newer != nil {
		d.newer.older = d.older
	} else if o.newest == d {
		o.newest = d.older
	}
	d.older, d.newer = nil, nil
}

// age is how long the partition's oldest job has been waiting or in flight; 0: no job is
// known to.
func (p *Partition) age(now time.Time) time.Duration {
	d := p.open.oldest
	if d == nil && !p.headWaits {
		d = p.buffer.head
	}
	if d == nil || d.Job.Time.IsZero() {
		return 0
	}
	since := d.Job.Time
	if d.times != nil && d.times.due.After(since) {
		since = d.times.due
	}
	return max(now.Sub(since), 0)
}
