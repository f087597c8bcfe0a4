package consumer

import "time"

// The jobs of a partition that are open, in the order of their offsets, so that
// the age of the oldest is known whatever is settled in between. What is asleep
// is left out: it waits for its time, not for us.

func (p *partition) link(d *Delivery) {
	d.older = p.newest
	if p.newest == nil {
		p.oldest = d
	} else {
		p.newest.newer = d
	}
	p.newest = d
}

// unlink has no effect on a job that is not linked.
func (p *partition) unlink(d *Delivery) {
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

// age is how long the partition's oldest job has been waiting, in hand or not: 0
// if none is known to.
func (p *partition) age(now time.Time) time.Duration {
	d := p.oldest
	if d == nil && !p.napping {
		d = p.buffer.head
	}
	if d == nil || d.Job.Time.IsZero() {
		return 0
	}
	since := d.Job.Time
	if d.hop != nil && d.hop.due.After(since) {
		since = d.hop.due
	}
	return max(now.Sub(since), 0)
}
