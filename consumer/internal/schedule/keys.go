package schedule

// Jobs of one key go one at a time, in the order of their offsets. The first of them holds
// the key; the others wait behind it, linked by nextOfKey. In partition order all jobs of
// a partition have one key.

// keyFree tells whether the job may go as far as its key is concerned. If not, it waits in
// the key queue, or is forgotten where the key is closed.
func (p *Partition) keyFree(d *Delivery) bool {
	if d.key == 0 || d.holdsKey { // it slept, and kept its key
		return true
	}
	last, taken := p.keys[d.key]
	if taken && last == nil {
		return false
	}
	p.keys[d.key] = d
	d.holdsKey = true
	if !taken {
		return true
	}
	last.nextOfKey = d
	p.parked += d.size
	return false
}

// leaveKey lets the next job of the key go. After a job whose offset stays open none may
// go on this node: it would overtake that job. So the key is closed then.
func (p *Partition) leaveKey(d *Delivery, done bool) {
	if !d.holdsKey {
		return
	}
	following := d.nextOfKey
	d.nextOfKey = nil
	switch {
	case !done:
		p.keys[d.key] = nil
		for ; following != nil; following = following.nextOfKey {
			p.parked -= following.size
		}
	case following == nil:
		delete(p.keys, d.key)
	default:
		p.freed.push(following)
	}
}
