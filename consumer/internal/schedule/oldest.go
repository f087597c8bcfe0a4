package schedule

import "time"

// The open jobs of a partition are linked in the order of their offsets, so that the age
// of the oldest is known whatever is settled in between. Jobs that sleep until their first
// call are left out: they wait for their time, and not for this node.

func (p *Partition) link(d *Delivery) {
	d.older = p.newest
	if p.newest == nil {
		p.oldest = d
	} else {
		p.newest.newer = d
	}
	p.newest = d
}

// unlink has no effect on a job that is not linked.
func (p *Partition) unlink(d *Delivery) {
	if d.older != nil {
		d.older.newer = d.newer
	} else if p.oldest == d {
		p.oldest = d.newer
	}
	if d.newer != nil {
		d.newer.older = d.older
	} else if p.newest == d {
		p.newest = d.older
	}
	d.older, d.newer = nil, nil
}

// age is how long the partition's oldest job has been waiting or in flight; 0: no job is
// known to.
func (p *Partition) age(now time.Time) time.Duration {
	d := p.oldest
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
